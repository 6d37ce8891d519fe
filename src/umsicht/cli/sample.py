"""`umsicht sample`: let a model continue a text."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from umsicht.cli.output import print_json
from umsicht.cli.projects import find_run
from umsicht.words import t

if TYPE_CHECKING:
    from umsicht.score.sampling import SamplingRule


def sample(
    run: str,
    *,
    prompt: str = "",
    checkpoint: str = "best",
    n: int = 1,
    max_new_tokens: int = 128,
    temperature: float = 0.8,
    top_p: float = 0.95,
    top_k: int = 0,
    min_p: float = 0.0,
    repetition_penalty: float = 1.0,
    seed: int = 0,
    device: str = "cpu",
    json: bool = False,
) -> int:
    """Let a model continue a text, shown as it is written. The same seed gives the same text.

    Parameters
    ----------
    run
        A run's folder or name, or a project's folder (its newest run).
    prompt
        The text to continue; empty: a new document.
    checkpoint
        `best`, `latest`, a step, or a checkpoint's folder.
    n
        How many texts, with seeds from --seed on.
    max_new_tokens
        Longest continuation in tokens.
    temperature
        0 takes the likeliest token each time; 1 draws as the model believes.
    top_p
        Draw from the likeliest tokens that together hold this probability.
    top_k
        Draw from so many of the likeliest tokens; 0: all.
    min_p
        Leave out tokens less likely than this share of the likeliest.
    repetition_penalty
        Above 1: make tokens that occurred less likely.
    seed
        Seed of the draw.
    device
        Where to compute: cpu, cuda, mps.
    json
        Print JSON.
    """
    from umsicht.finetune.stream import stream_text
    from umsicht.finetune.subject import open_subject

    rule = rule_of(temperature, top_p, top_k, min_p, repetition_penalty)
    subject = open_subject(find_run(run), checkpoint, device=device)
    if prompt.endswith((" ", "\t")):
        print(t("finetune.sample_space"), file=sys.stderr)
    ids = [subject.tokenizer.eos_id, *subject.tokenizer.encode(prompt)]
    texts = []
    for number in range(n):
        pieces = stream_text(
            subject,
            ids,
            rule=rule,
            max_new_tokens=max_new_tokens,
            seed=seed + number,
            stop_ids=[subject.tokenizer.eos_id],
        )
        if json:
            texts.append({"seed": seed + number, "text": "".join(pieces)})
        else:
            show(prompt, pieces)
    if json:
        print_json({"run": subject.run.name, "step": subject.step, "prompt": prompt, "texts": texts})
    return 0


def rule_of(
    temperature: float, top_p: float, top_k: int, min_p: float, repetition_penalty: float
) -> SamplingRule:
    """The sampling rule of the options. Raises `UserError` for one out of range."""
    from umsicht.findings import UserError
    from umsicht.score.sampling import SamplingRule

    try:
        return SamplingRule(temperature, top_p, top_k, min_p, repetition_penalty)
    except ValueError as error:
        raise UserError(str(error)) from error


def show(prompt: str, pieces: Iterator[str]) -> None:
    """Print a text while it is written."""
    sys.stdout.write(prompt)
    empty = True
    for piece in pieces:
        empty = False
        sys.stdout.write(piece)
        sys.stdout.flush()
    sys.stdout.write((t("finetune.sample_empty") if empty else "") + "\n")
    sys.stdout.flush()
