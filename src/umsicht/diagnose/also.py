"""Second things worth saying beside the verdict."""

from __future__ import annotations

from typing import Any

from umsicht.diagnose import steering, tuning
from umsicht.diagnose.model import Also, Gap
from umsicht.diagnose.rules import Case, Ruling, slice_rises
from umsicht.diagnose.written import written
from umsicht.words import t

NEGATIVE = -0.15
"""Dropout alone lifts training over validation by a tenth at most."""


def find(case: Case, gap: Gap | None, ruling: Ruling) -> tuple[Also, ...]:
    """Gap, still falling, below the plan's prediction, spikes, one slice against the mean, what preference and reward training log, rate and gradient."""
    found: list[tuple[str, dict[str, Any]]] = []
    facts, limits = case.facts, case.limits
    spikes = case.of_kind("spike")
    if spikes:
        lost = sum(1 for event in spikes if event.recovered is False)
        worst = max(spikes, key=lambda event: event.numbers["height"])
        numbers: dict[str, Any] = {
            "n": len(spikes),
            "lost": lost,
            "step": worst.step,
            "height": round(worst.numbers["height"], 3),
        }
        found.append(("spikes-lost" if lost else "spikes", numbers))
    if (
        ruling.verdict == "healthy"
        and facts.still_falling is not None
        and facts.still_falling > limits.falling_share
    ):
        found.append(("still-falling", {"share": round(100 * facts.still_falling, 1)}))
    predicts = case.curves.predicted_loss and facts.unit == "nats"
    if predicts and facts.val_end is not None and _at_end(case):
        over = facts.val_end / (case.curves.predicted_loss or facts.val_end) - 1
        if over > 0.05:
            numbers = {
                "predicted": case.curves.predicted_loss,
                "val": facts.val_end,
                "share": round(100 * over, 1),
            }
            found.append(("above-prediction", numbers))
    if gap is not None and gap.share < NEGATIVE and ruling.reason != "fixed-multiple":
        found.append(("gap-negative", {"share": round(-100 * gap.share, 1)}))
    if gap is not None and gap.reading not in ("small", "negative"):
        numbers = {"gap": round(gap.last, 4), "share": round(100 * gap.share, 1), "epochs": gap.epochs_seen}
        found.append((f"gap-{gap.reading}", numbers))
    if ruling.verdict not in ("domain-divergence", "uncertain", "too-early"):
        slice_ = slice_rises(case)
        if slice_ is not None:
            found.append(("slice-rises", slice_.numbers))
    known = {name for name, _ in found}
    found += [
        entry
        for entry in dict([*tuning.find(case.curves), *steering.find(case.curves)]).items()
        if entry[0] not in known
    ]
    return tuple(
        Also(name, numbers, t(f"diagnose.also.{name}", **written(numbers))) for name, numbers in found
    )


def _at_end(case: Case) -> bool:
    progress = case.facts.progress
    return progress is not None and progress >= 0.98
