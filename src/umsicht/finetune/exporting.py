"""Handing a model over: a Hugging Face folder or a GGUF file, read back and compared before it counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import save as save_bytes

from umsicht.findings import Finding, UserError, render
from umsicht.model import Transformer
from umsicht.model.foreign import to_foreign_config, to_foreign_state
from umsicht.model.gguf_file import KINDS, GgufKind, read_gguf, write_gguf
from umsicht.model.import_folder import import_folder, largest_difference
from umsicht.record import atomic_folder, atomic_json, atomic_write
from umsicht.tokenizer import Tokenizer
from umsicht.tokenizer.chat import JINJA_TEMPLATE
from umsicht.tokenizer.special import EOS, IM_END, IM_START, PAD
from umsicht.words import t

from .card import model_card
from .subject import Subject, merged

Format = Literal["hf", "gguf-f32", "gguf-f16", "gguf-q8_0"]
FORMATS: tuple[Format, ...] = ("hf", "gguf-f32", "gguf-f16", "gguf-q8_0")

TOLERANCE: dict[Format, float] = {"hf": 1e-5, "gguf-f32": 1e-5, "gguf-f16": 0.05, "gguf-q8_0": 0.25}
"""Largest difference of logits accepted when the export is read back; rounding explains that much and no more."""

PROBE = (
    "Umsicht: Übung, naïve café — «¿Qué?» 12.345,67 €\n\tdef f(x): return x**2  # Übung\n"
    "Это проверка. これはテストです。 यह एक परीक्षा है। هذا اختبار 🙂👩‍👩‍👧"
)
"""A text that meets many scripts, digits, code and joined characters."""


@dataclass(frozen=True)
class Exported:
    """Where it lies and how close it reads back."""

    path: Path
    format: Format
    largest_difference: float
    probe_tokens: int
    findings: list[Finding] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "path": str(self.path),
            "format": self.format,
            "largest_difference": self.largest_difference,
            "probe_tokens": self.probe_tokens,
            "findings": [finding.to_dict() for finding in self.findings],
        }


def export(subject: Subject, out: str | Path, fmt: Format = "hf") -> Exported:
    """Write `subject` to `out` (a folder, or a `.gguf` file) and read it back.

    Adapters are merged. Raises `UserError` for what the format does not express, for an `out` that exists, and where
    the copy does not answer as the original (finding LOAD-MAP/export-differs); then nothing is left behind.
    """
    if fmt not in FORMATS:
        raise UserError(t("finetune.export_format", format=fmt), fix=", ".join(FORMATS))
    out = Path(out)
    if out.exists():
        raise UserError(t("finetune.export_exists", path=out), fix=t("finetune.export_exists_fix"))
    model = merged(subject.model).cpu()
    if fmt == "hf":
        with atomic_folder(out) as folder:
            write_folder(model, subject, folder)
            difference = _checked(model, import_folder(folder), subject, Tokenizer.load(folder), fmt)
    else:
        kind = _kind(fmt)
        temporary = out.with_name(f"{out.name}.part")
        try:
            template = JINJA_TEMPLATE if _has_chat_tokens(subject.tokenizer) else None
            state = {name: value.detach() for name, value in model.state_dict().items()}
            write_gguf(
                model.config,
                state,
                subject.tokenizer,
                temporary,
                kind=kind,
                name=subject.run.name,
                chat_template=template,
            )
            difference = _checked(model, read_gguf(temporary, model.config), subject, subject.tokenizer, fmt)
            temporary.replace(out)
        finally:
            temporary.unlink(missing_ok=True)
    return Exported(out, fmt, difference, len(subject.tokenizer.encode(PROBE)))


def write_folder(model: Transformer, subject: Subject, folder: Path) -> None:
    """Everything that `from_pretrained` reads, and a model card from the record."""
    tokenizer = subject.tokenizer
    config = to_foreign_config(model.config, eos_id=tokenizer.eos_id, pad_id=tokenizer.pad_id)
    state = to_foreign_state(model.config, {n: v.detach().cpu() for n, v in model.state_dict().items()})
    atomic_write(folder / "model.safetensors", save_bytes(state, metadata={"format": "pt"}))
    atomic_json(folder / "config.json", config)
    atomic_json(folder / "generation_config.json", generation_config(subject))
    atomic_json(folder / "tokenizer.json", tokenizer.definition)
    atomic_json(folder / "tokenizer_config.json", tokenizer_config(tokenizer, model.config.seq_len))
    if _has_chat_tokens(tokenizer):
        atomic_write(folder / "chat_template.jinja", JINJA_TEMPLATE)
    atomic_write(folder / "README.md", model_card(subject))


def tokenizer_config(tokenizer: Tokenizer, seq_len: int) -> dict[str, Any]:
    """What transformers needs beside `tokenizer.json`; nothing is added to a text on encoding."""
    names = {number: name for name, number in tokenizer.special.items()}
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": seq_len,
        "clean_up_tokenization_spaces": False,
        "add_bos_token": False,
        "add_eos_token": False,
        "bos_token": names.get(-1 if tokenizer.bos_id is None else tokenizer.bos_id),
        "eos_token": names.get(tokenizer.eos_id, EOS),
        "pad_token": names.get(tokenizer.pad_id, PAD),
    }
    if _has_chat_tokens(tokenizer):
        config["chat_template"] = JINJA_TEMPLATE
    return config


def generation_config(subject: Subject) -> dict[str, Any]:
    """Where a text ends, for `generate`."""
    tokenizer = subject.tokenizer
    ends = [tokenizer.eos_id]
    if subject.is_chat and IM_END in tokenizer.special:
        ends = [tokenizer.special[IM_END], tokenizer.eos_id]
    return {
        "bos_token_id": tokenizer.bos_id,
        "eos_token_id": ends,
        "pad_token_id": tokenizer.pad_id,
        "do_sample": True,
        "temperature": 0.8,
        "top_p": 0.95,
    }


def probe_ids(tokenizer: Tokenizer, seq_len: int) -> torch.Tensor:
    """The probe text behind an end token, `[1, seq]`, cut to the context."""
    return torch.tensor([[tokenizer.eos_id, *tokenizer.encode(PROBE)][:seq_len]])


def _kind(fmt: Format) -> GgufKind:
    return next(kind for kind in KINDS if fmt == f"gguf-{kind}")


def _has_chat_tokens(tokenizer: Tokenizer) -> bool:
    return IM_START in tokenizer.special and IM_END in tokenizer.special


def _checked(
    model: Transformer, again: Transformer, subject: Subject, tokenizer: Tokenizer, fmt: Format
) -> float:
    ids = probe_ids(subject.tokenizer, model.config.seq_len)
    difference = largest_difference(model, again, ids)
    same_ids = tokenizer.encode(PROBE) == subject.tokenizer.encode(PROBE)
    same_special = tokenizer.special == subject.tokenizer.special
    if difference <= TOLERANCE[fmt] and same_ids and same_special:
        return difference
    numbers = {
        "format": fmt,
        "difference": float(f"{difference:.3g}"),
        "tolerance": TOLERANCE[fmt],
        "same_ids": same_ids,
    }
    shown = render(Finding("LOAD-MAP/export-differs", "stop", "export", str(subject.checkpoint), numbers))
    raise UserError(shown.seen, where=str(subject.checkpoint), why=shown.why, fix=shown.next)
