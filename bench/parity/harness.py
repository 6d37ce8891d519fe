"""lm-evaluation-harness: our live model through it, against its own loader on our export, against our own bits per byte."""

from __future__ import annotations

import json
import math
import pydoc_data.topics
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.parity.subject import subject
from umsicht.evaluate import harness
from umsicht.evaluate.harness_model import Asked, as_harness_model
from umsicht.evaluate.harness_tasks import offline
from umsicht.finetune.exporting import export
from umsicht.score import document_nats, of_transformer

Figures = dict[str, float]
WINDOW = 256


def against_harness(root: Path) -> Figures:
    """One small model, three ways: in process, exported and loaded by the harness, and by `document_nats`."""
    offline()
    from lm_eval.models.huggingface import HFLM
    from transformers import AutoModelForCausalLM, AutoTokenizer

    made = subject(root / "harness")
    export(made, root / "harness" / "model")
    theirs = HFLM(
        pretrained=AutoModelForCausalLM.from_pretrained(
            root / "harness" / "model", dtype=torch.float32
        ).eval(),
        tokenizer=AutoTokenizer.from_pretrained(root / "harness" / "model"),
        max_length=WINDOW,
        batch_size=8,
        device="cpu",
    )
    texts = [text for text in pydoc_data.topics.topics.values() if len(text) > 200][:12]
    short = [text[:200] for text in texts]
    files = {"arc_easy": _questions(root, texts), "bits_per_byte": _rows(root / "long.jsonl", texts)}
    ours = as_harness_model(Asked(made.model, made.tokenizer, WINDOW, torch.device("cpu"), "empty-context"))
    mine, other = (harness.ask(lm, files, limit=None, prefix="") for lm in (ours, theirs))
    (brief,) = harness.ask(
        theirs, {"bits_per_byte": _rows(root / "short.jsonl", short)}, limit=None, prefix=""
    )
    ids = [np.array(made.tokenizer.encode(text)) for text in short]
    nats = document_nats(of_transformer(made.model), ids, prefix=made.tokenizer.eos_id, window=WINDOW)
    bits = sum(float(n.sum()) for n in nats) / math.log(2) / sum(len(text.encode()) for text in short)
    return {
        "lm-eval: answers that differ": float(
            sum(a != b for a, b in zip(mine[0].scores, other[0].scores, strict=True))
        ),
        "lm-eval: bits per byte, in process against its loader": _apart(mine[1], other[1]),
        "lm-eval: bits per byte, against ours": abs(brief.metrics["bits_per_byte"] - bits),
        "lm-eval: bits per byte of this model": bits,
    }


def _apart(one: harness.HarnessResult, other: harness.HarnessResult) -> float:
    return abs(one.metrics["bits_per_byte"] - other.metrics["bits_per_byte"])


def _questions(root: Path, texts: list[str]) -> Path:
    """Which of four sentences goes on from a paragraph: the answers are close, so that a slip in the arithmetic shows."""
    pieces = [text[start : start + 60].strip() for text in texts for start in (0, 80, 160)]
    rows: list[dict[str, Any]] = [
        {
            "query": f"Question: {pieces[i]}",
            "choices": [pieces[(i + k) % len(pieces)] for k in range(1, 5)],
            "gold": i % 4,
        }
        for i in range(len(pieces))
    ]
    return _write(root / "questions.jsonl", rows)


def _rows(path: Path, texts: list[str]) -> Path:
    return _write(path, [{"text": text} for text in texts])


def _write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
