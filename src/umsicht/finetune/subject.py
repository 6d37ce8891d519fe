"""A checkpoint opened for use: its weights, its tokenizer, its record."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from umsicht.evaluate.checkpoint import find, tokenizer_of
from umsicht.findings import UserError
from umsicht.model import ModelConfig, Transformer, load_config, load_weights
from umsicht.model.lora import merged_state
from umsicht.model.weights import empty, fill
from umsicht.record import Run
from umsicht.record.ids import file_digest
from umsicht.record.manifest import read_manifest
from umsicht.tokenizer import Tokenizer
from umsicht.words import t


@dataclass(frozen=True)
class Subject:
    """What is sampled, chatted with, fine-tuned or exported."""

    run: Run
    checkpoint: Path
    model: Transformer
    tokenizer: Tokenizer
    digest: str
    """SHA-256 of the file of weights."""

    @property
    def step(self) -> int:
        """The step that the checkpoint was written at."""
        return int((read_manifest(self.checkpoint) or {}).get("step", 0))

    @property
    def is_chat(self) -> bool:
        """Whether some stage taught it to answer messages."""
        return bool(self.run.manifest.get("chat"))


def open_subject(run: Run, wanted: str = "best", *, device: torch.device | str = "cpu") -> Subject:
    """Open a run's checkpoint (`best`, `latest`, a step, a folder). Raises `UserError` where something is missing or does
    not belong together."""
    path = find(run, wanted)
    tokenizer = tokenizer_of(run)
    config = load_config(path)
    if config.n_tokens != tokenizer.n_tokens:
        raise UserError(
            t("finetune.vocabulary_differs", model=config.n_tokens, tokenizer=tokenizer.n_tokens),
            where=str(path),
            why=t("finetune.vocabulary_differs_why"),
            fix=t("finetune.vocabulary_differs_fix"),
        )
    model = load_weights(path, device=device).eval()
    return Subject(run, path, model, tokenizer, file_digest(path / "model.safetensors"))


def merged(model: Transformer) -> Transformer:
    """A plain model that answers as `model` does; itself where it has no adapters."""
    if model.config.lora is None:
        return model
    plain = ModelConfig.from_dict({**model.config.to_dict(), "lora": None})
    out = empty(plain)
    fill(out, merged_state(model))
    return out.eval()
