"""`umsicht export`: a Hugging Face folder or a GGUF file, read back before it counts."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from umsicht.cli.output import print_json
from umsicht.cli.projects import find_run
from umsicht.words import numerals, t


def export(
    run: str,
    out: Path,
    *,
    format: Literal["hf", "gguf-f32", "gguf-f16", "gguf-q8_0"] = "hf",
    checkpoint: str = "best",
    json: bool = False,
    dry_run: bool = False,
) -> int:
    """Write a Hugging Face folder or a GGUF file. It is read back and compared with the original; what differs is not kept.

    Parameters
    ----------
    run
        A run's folder or name, or a project's folder (its newest run).
    out
        The folder (hf) or file (gguf) to write; it must not exist.
    format
        hf: a folder for transformers, vLLM and others. gguf-…: one file for llama.cpp; f32 is exact, f16 and q8_0 are smaller.
    checkpoint
        `best`, `latest`, a step, or a checkpoint's folder.
    json
        Print JSON.
    dry_run
        Only say what would be written.
    """
    from umsicht.finetune.exporting import export as write
    from umsicht.finetune.subject import open_subject

    subject = open_subject(find_run(run), checkpoint)
    if dry_run:
        print(t("finetune.export_would", path=out, checkpoint=subject.checkpoint))
        return 0
    written = write(subject, out, format)
    if json:
        print_json(written.to_dict())
    else:
        difference = numerals(f"{written.largest_difference:.2g}")
        print(t("finetune.export_done", path=out, difference=difference, tokens=written.probe_tokens))
    return 0
