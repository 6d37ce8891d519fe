"""Is the base fit to be fine-tuned? Its evaluation must exist, be of these very weights, and be good enough."""

from __future__ import annotations

import math
from collections.abc import Iterator

import orjson

from umsicht.evaluate.evaluation import Evaluation
from umsicht.findings import Finding
from umsicht.record import Run
from umsicht.words import t

SHARE_BEATEN = 0.5
"""A base that needs more bits than plain `xz` on more than this share of its slices has not learned the language."""


def evaluations(run: Run) -> Iterator[Evaluation]:
    """Every evaluation in the run's record that can be read, newest first."""
    if not run.evaluations.is_dir():
        return
    paths = sorted(run.evaluations.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in paths:
        try:
            yield Evaluation.from_dict(orjson.loads(path.read_bytes()))
        except (OSError, orjson.JSONDecodeError, KeyError, TypeError, ValueError):
            continue


def evaluation_of(run: Run, digest: str) -> Evaluation | None:
    """The newest evaluation of the weights with this SHA-256."""
    return next((e for e in evaluations(run) if e.checkpoint.get("digest") == digest), None)


def check_base(run: Run, digest: str) -> list[Finding]:
    """Findings that shut the gate before fine-tuning; an empty list opens it.

    FINETUNE/base-not-evaluated: no evaluation, or only of other weights. FINETUNE/base-poor: it did not learn its
    text; the finding's cause says whether training, capacity or data is what it lacks.
    """
    found = evaluation_of(run, digest)
    where = str(run.folder)
    if found is None:
        others = sum(1 for _ in evaluations(run))
        cause = "other_weights" if others else "never"
        numbers = {"evaluations": others, "digest": digest[:12]}
        return [
            Finding(
                "FINETUNE/base-not-evaluated",
                "stop",
                "finetune",
                where,
                numbers,
                cause=t(f"finetune.cause.{cause}"),
            )
        ]
    if not math.isfinite(found.total.bpb):
        return [
            Finding(
                "FINETUNE/base-poor",
                "stop",
                "finetune",
                where,
                _numbers(found),
                cause=t("finetune.cause.broken"),
            )
        ]
    beaten = found.beats("xz")
    if len(beaten) >= SHARE_BEATEN * len(found.slices):
        return []
    lacks = lacking(run)
    numbers = {**_numbers(found), "lacks": lacks}
    cause = t(f"finetune.cause.{lacks}")
    return [Finding("FINETUNE/base-poor", "stop", "finetune", where, numbers, cause=cause)]


def _numbers(found: Evaluation) -> dict[str, float | int | str]:
    return {
        "bpb": round(found.total.bpb, 3) if math.isfinite(found.total.bpb) else str(found.total.bpb),
        "beats_xz": len(found.beats("xz")),
        "slices": len(found.slices),
        "step": found.step,
    }


def lacking(run: Run) -> str:
    """What a poor base lacks most, from its curves: `training`, `data` or `capacity`.

    Validation that still fell over the last fifth of the run asks for training; validation that rises while training
    loss falls asks for data; two flat curves ask for capacity.
    """
    rows = run.metrics().rows
    val = [float(r["val/all/bpb"]) for r in rows if isinstance(r.get("val/all/bpb"), int | float)]
    train = [float(r["train_eval/bpb"]) for r in rows if isinstance(r.get("train_eval/bpb"), int | float)]
    if len(val) < 3:
        return "training"
    recent = max(2, len(val) // 5 + 1)
    change = (val[-1] - val[-recent]) / val[-recent]
    if change < -0.01:
        return "training"
    best = min(val)
    if val[-1] > 1.02 * best and len(train) > 1 and train[-1] < train[len(train) // 2]:
        return "data"
    return "capacity"
