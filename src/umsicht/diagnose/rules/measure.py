"""Curves that do not measure what their names say: sums for means, perplexities for losses, another validation text from some step on, no updates."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from umsicht.diagnose.completeness import Citation, cite
from umsicht.diagnose.curves import GRAD, TRAIN
from umsicht.diagnose.rules.case import Case, Ruling, ends
from umsicht.diagnose.series import Series, noise_sigma

TAIL = 5
LARGEST = math.log(2_000_000)
"""No mean loss a token in nats lies above the logarithm of the largest vocabulary there is, but for a short while after a bad start."""


def no_updates(case: Case) -> Ruling | None:
    """A training loss of exactly zero, or a gradient norm that is no number, to the end of the log while nothing is gained any more.

    Trainers that hide a NaN in their loss show it so: the loss they print is zero, or the last mean that could be formed.
    """
    train, norm = case.curves.get(TRAIN), case.curves.get(GRAD)
    zero = _tail(train, train.values == 0.0)
    if zero is not None and _before(train, zero) > 0.05:
        return _stopped(case, train, zero, "loss-zero")
    gone = _tail(norm, ~np.isfinite(norm.values))
    if gone is None:
        return None
    after, before = train.between(gone, np.inf).finite(), train.between(-np.inf, gone - 1).finite()
    if len(after) < TAIL or not before:
        return None
    third = max(1, len(after) // 3)
    gain = float(np.median(after.values[:third]) - np.median(after.values[-third:]))
    if gain > max(
        2 * noise_sigma(after.values, 1e-9) / math.sqrt(third), 0.002 * abs(float(after.values[-1]))
    ):
        return None
    return _stopped(case, norm, gone, "gradient-nonfinite")


def _tail(series: Series, bad: Any) -> int | None:
    """The step from which everything to the end is bad: at least five points, not all of them."""
    if not len(series) or not bool(np.asarray(bad)[-1]) or bool(np.all(bad)):
        return None
    start = int(np.flatnonzero(~np.asarray(bad))[-1]) + 1
    return int(series.steps[start]) if len(series) - start >= TAIL else None


def _before(series: Series, step: int) -> float:
    earlier = series.between(-np.inf, step - 1).finite()
    return float(np.median(earlier.values[-TAIL:])) if earlier else 0.0


def _stopped(case: Case, series: Series, step: int, reason: str) -> Ruling:
    last = int(series.steps[-1])
    earlier = series.between(-np.inf, step - 1)
    citations = [cite(series, float(step), "first_nonfinite"), cite(series, float(last), "train_last")]
    if earlier:
        citations.insert(0, cite(earlier, float(earlier.steps[-1]), "last_finite"))
    train = case.curves.get(TRAIN)
    if train and series.name != TRAIN:
        citations.append(cite(train, float(train.steps[-1]), "train_last"))
    numbers = {"step": step, "points": len(series.between(step, np.inf)), "metric": series.name}
    causes = ("nonfinite-data", "lr-too-high", "precision", "hardware")
    return Ruling("diverged", reason, tuple(citations), causes, numbers)


def no_mean_loss(case: Case) -> Ruling | None:
    """A loss above ln of any vocabulary all along, or one a fixed multiple of the other at every validation: not two means over tokens."""
    facts = case.facts
    if facts.unit != "nats" or not facts.train or not facts.val:
        return None
    for name, series in (("train", facts.train), ("val", facts.val)):
        if float(np.quantile(series.values, 0.1)) > LARGEST and len(series) >= TAIL:
            numbers = {"metric": series.name, "end": float(series.values[-1]), "largest": round(LARGEST, 1)}
            multiple = _multiple(case)
            if multiple is not None:
                return _multiplied(case, multiple)
            causes = ("loss-summed", "perplexity") if name == "train" else ("perplexity", "loss-summed")
            return Ruling("uncertain", "no-mean-loss", _ends(case), causes, numbers, "medium")
    multiple = _multiple(case)
    return _multiplied(case, multiple) if multiple is not None else None


def _multiplied(case: Case, multiple: float) -> Ruling:
    numbers = {"multiple": multiple, "train": case.facts.train_end, "val": case.facts.val_end}
    causes = ("loss-summed", "distribution-difference", "val-masked")
    return Ruling("uncertain", "fixed-multiple", _ends(case), causes, numbers, "medium")


def _ends(case: Case) -> tuple[Citation, ...]:
    return tuple(ends(case))


def _multiple(case: Case) -> float | None:
    """Training ÷ validation loss where it is the same at every validation while both fall by a third: 1.8 or more."""
    facts = case.facts
    steps = np.intersect1d(facts.val.steps, facts.like.steps)
    if len(steps) < 4:
        return None
    val = facts.val.values[np.searchsorted(facts.val.steps, steps)]
    like = facts.like.values[np.searchsorted(facts.like.steps, steps)]
    if np.any(val <= 0) or np.any(like <= 0) or np.ptp(val) < 0.3 * float(np.max(val)):
        return None
    ratio = like / val
    middle = float(np.median(ratio))
    # Right at the start the logged batches and the validation are of other steps; there the curve is steep.
    late = ratio[1:]
    return middle if middle >= 1.8 and float(np.ptp(late)) < 0.12 * middle else None


def validation_changed(case: Case) -> Ruling | None:
    """Validation jumps between two measurements and stays there, while training goes on as if nothing had happened: another text or another way of scoring."""
    facts = case.facts
    val = facts.val
    if len(val) < 8:
        return None
    moves = np.diff(val.values)
    for index in range(2, len(moves) - 2):
        # A healthy curve bends: what it would have moved here is read off a line through the moves beside.
        places = np.array([p for p in range(index - 3, index + 4) if p != index and 0 <= p < len(moves)])
        slope, middle = np.polyfit(places - index, moves[places], 1)
        usual = float(middle)
        jump = float(moves[index]) - usual
        left = moves[places] - (slope * (places - index) + middle)
        spread = max(float(np.sqrt(np.mean(left**2))), noise_sigma(val.values, 1e-6))
        level = abs(float(val.values[index]))
        after = float(np.median(val.values[index + 2 : index + 5]) - val.values[index + 1]) - 2 * usual
        if abs(jump) < max(8 * spread, 0.06 * level) or (after * jump < 0 and abs(after) > 0.5 * abs(jump)):
            continue
        if not _training_calm(case, int(val.steps[index]), int(val.steps[index + 1]), jump):
            continue
        numbers = {
            "step": int(val.steps[index + 1]),
            "before": float(val.values[index]),
            "after": float(val.values[index + 1]),
            "jump": jump,
        }
        citations = (
            cite(val, float(val.steps[index]), "val_before_jump"),
            cite(val, float(val.steps[index + 1]), "val_after_jump"),
            *ends(case),
        )
        causes = ("val-text-changed", "val-procedure-changed", "resume-state")
        return Ruling("uncertain", "val-changed", citations, causes, numbers, "high")
    return None


def _training_calm(case: Case, first: int, last: int, jump: float) -> bool:
    """Across the jump training moves as it does right before and after it, to a fifth of the jump."""
    span = max(last - first, 1)
    moves = [_move(case.facts.train, first + offset, span) for offset in (-2 * span, 0, 2 * span)]
    here = moves[1]
    beside = [move for move in (moves[0], moves[2]) if move is not None]
    return here is not None and bool(beside) and abs(here - float(np.mean(beside))) < 0.2 * abs(jump)


def _move(train: Series, first: int, span: int) -> float | None:
    before, after = train.between(first - span, first), train.between(first + span, first + 2 * span)
    if len(before) < 3 or len(after) < 3:
        return None
    return float(np.median(after.values) - np.median(before.values))
