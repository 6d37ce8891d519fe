"""Grading the plan: what was predicted beside what came out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from umsicht.findings import Finding
from umsicht.record import Run

TARGETS = {"bpb": 0.03, "time": 0.10, "memory": 0.10}
"""Relative error within which a prediction is good."""


@dataclass(frozen=True)
class Grade:
    """One prediction against what came out. `error` is relative: 0.05 means that five per cent more came out than predicted."""

    quantity: str
    predicted: float
    low: float | None
    high: float | None
    actual: float
    target: float

    @property
    def error(self) -> float:
        """(actual - predicted) ÷ predicted."""
        return (self.actual - self.predicted) / self.predicted if self.predicted else float("inf")

    @property
    def good(self) -> bool:
        """Whether the prediction is within its target."""
        return abs(self.error) <= self.target

    @property
    def inside(self) -> bool | None:
        """Whether the stated interval holds what came out; None without an interval."""
        return None if self.low is None or self.high is None else self.low <= self.actual <= self.high

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return {**asdict(self), "error": self.error, "good": self.good, "inside": self.inside}


def grade(plan: Mapping[str, Any], run: Run) -> list[Grade]:
    """Compare a plan's report with a run that ended. Only what both know is graded; empty where the run has no figures yet."""
    rows = run.metrics().rows
    if not rows:
        return []
    predicted = plan.get("predicted", {})
    grades = []
    scores = _last_scores(rows)
    for name, made in predicted.get("bpb", {}).items():
        if name in scores:
            grades.append(
                Grade(f"bpb {name}", made["value"], made["low"], made["high"], scores[name], TARGETS["bpb"])
            )
    loss, ended = predicted.get("loss"), _last(rows, "val/all/loss")
    if loss and ended is not None:
        grades.append(Grade("loss all", loss["value"], loss["low"], loss["high"], ended, TARGETS["bpb"]))
    taken = wall_seconds(rows)
    if predicted.get("training_s") and taken and int(rows[-1]["step"]) >= int(plan.get("steps", 0)):
        grades.append(Grade("training_s", predicted["training_s"], None, None, taken, TARGETS["time"]))
        if money := predicted.get("training_money"):
            spent = money * taken / predicted["training_s"]
            grades.append(Grade("money", money, None, None, spent, TARGETS["time"]))
    peak = run.manifest.get("peak_bytes")
    if peak and predicted.get("peak_bytes"):
        grades.append(
            Grade("peak_bytes", predicted["peak_bytes"], None, None, float(peak), TARGETS["memory"])
        )
    return grades


def findings(grades: Sequence[Grade]) -> list[Finding]:
    """BUDGET/prediction-missed for each prediction whose interval, or thrice its target, did not hold."""
    found = []
    for one in grades:
        missed = not one.inside if one.inside is not None else abs(one.error) > 3 * one.target
        if missed:
            numbers = {
                "quantity": one.quantity,
                "predicted": one.predicted,
                "actual": one.actual,
                "error": round(100 * one.error, 1),
            }
            found.append(Finding("BUDGET/prediction-missed", "note", "plan", one.quantity, numbers))
    return found


def wall_seconds(rows: Sequence[Mapping[str, Any]]) -> float:
    """Wall time that the steps of `rows` take straight through: the mean time a step within segments, times the last step.

    What lay between segments, and steps that a restart did again, are not in it: the plan's training time does not have them either.
    """
    seconds, steps = 0.0, 0
    before: Mapping[str, Any] | None = None
    for row in rows:
        timed = isinstance(row.get("time"), int | float)
        if timed and before is not None and before.get("segment", 0) == row.get("segment", 0):
            seconds += float(row["time"]) - float(before["time"])
            steps += int(row["step"]) - int(before["step"])
        before = row if timed else before
    return seconds / steps * int(rows[-1]["step"]) if steps else 0.0


def _last(rows: Sequence[Mapping[str, Any]], key: str) -> float | None:
    """The last number under `key`."""
    return next((float(row[key]) for row in reversed(rows) if isinstance(row.get(key), int | float)), None)


def _last_scores(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The last bits a byte of every slice; unusable values are left out."""
    found: dict[str, float] = {}
    for row in rows:
        for key, value in row.items():
            if key.startswith("val/") and key.endswith("/bpb") and isinstance(value, int | float):
                found[key.removeprefix("val/").removesuffix("/bpb")] = float(value)
    return found
