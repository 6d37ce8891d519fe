"""A small model with a real tokenizer, away from its starting point, ready to be exported."""

from __future__ import annotations

import functools
import pydoc_data.topics
import tempfile
from pathlib import Path
from typing import Any

import torch

from umsicht.finetune.subject import Subject
from umsicht.model import ModelConfig, Transformer, build
from umsicht.recipe.tokenizer import TokenizerSettings
from umsicht.record import QUIET, Run
from umsicht.tokenizer import Tokenizer
from umsicht.tokenizer.sample import Sample
from umsicht.tokenizer.train import train

SCRIPTS = (
    "Übung macht den Meister; naïve façade, œuvre, ¿qué? — 12.345,67 €. Это проверка. 这是一个测试。"
    "これはテストです。 यह एक परीक्षा है। هذا اختبار. Bu bir sınavdır. 🙂👩‍👩‍👧\n"
)


@functools.cache
def _trained(vocab_size: int) -> bytes:
    texts = [*list(pydoc_data.topics.topics.values())[:30], SCRIPTS * 20]
    with tempfile.TemporaryDirectory() as name:
        train(
            TokenizerSettings(vocab_size=vocab_size),
            lambda: (Sample(text, "en", "reference") for text in texts),
            Path(name),
            QUIET,
        )
        return (Path(name) / "tokenizer.json").read_bytes()


def tokenizer(folder: Path, vocab_size: int = 600) -> Tokenizer:
    """A byte-level tokenizer trained on the standard library's reference and a line of many scripts."""
    (folder / "tokenizer.json").write_bytes(_trained(vocab_size))
    return Tokenizer.load(folder / "tokenizer.json")


def model_of(family: str, n_tokens: int, **changes: Any) -> Transformer:
    """Every weight is away from zero and one, so that a part that is skipped or misplaced shows."""
    sizes: dict[str, Any] = {
        "family": family,
        "n_tokens": n_tokens,
        "vocab_size": -(-n_tokens // 128) * 128,
        "d_model": 64,
        "n_layers": 3,
        "n_heads": 2,
        "n_kv_heads": 1,
        "head_dim": 128 if family == "qwen3" else 32,
        "d_ff": 96,
        "seq_len": 256,
        "softcap": 15.0 if family == "nanochat" else None,
    }
    if family == "gpt2":
        sizes |= {"n_kv_heads": 2, "tied": True, "norm_eps": 1e-5, "embedding_std": 0.02}
    model = build(ModelConfig(**{**sizes, **changes}), seed=0)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


def subject(root: Path, family: str = "qwen3", **changes: Any) -> Subject:
    """The model as a subject, with a run folder that holds its record."""
    folder = root / f"tokenizer-{family}"
    folder.mkdir(parents=True, exist_ok=True)
    made = tokenizer(folder)
    run = Run.create(
        root / f"run-{family}", {"name": f"parity-{family}", "recipe": {}, "inputs": {}, "seed": 0}
    )
    return Subject(run, root, model_of(family, made.n_tokens, **changes), made, "0" * 64)
