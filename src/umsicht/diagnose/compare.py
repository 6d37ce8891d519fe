"""`compare()`: do two recipes really differ? Groups of seeds, intervals at equal tokens and equal time, a decision or none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from umsicht.diagnose import stats
from umsicht.diagnose.comparable import check, choose_metric
from umsicht.diagnose.curves import Curves
from umsicht.diagnose.groups import Group, differences, group, load
from umsicht.diagnose.series import Floats, Series
from umsicht.findings.errors import UserError
from umsicht.words import t

BOOTSTRAP_FROM = 8


@dataclass(frozen=True)
class Side:
    """One group's values at the place of comparison."""

    label: str
    runs: tuple[str, ...]
    seeds: tuple[int | None, ...]
    values: tuple[float, ...]
    mean: float
    spread: float | None

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "label": self.label,
            "runs": list(self.runs),
            "seeds": list(self.seeds),
            "values": list(self.values),
            "mean": self.mean,
            "spread": self.spread,
            "n": len(self.values),
        }


@dataclass(frozen=True)
class Contest:
    """Two groups at one place: equal tokens, equal steps (logs without tokens) or equal wall-clock time."""

    at: str
    budget: float
    a: Side
    b: Side
    difference: stats.Difference
    decision: str
    more_seeds: int | None
    text: str

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "at": self.at,
            "budget": self.budget,
            "a": self.a.to_dict(),
            "b": self.b.to_dict(),
            "difference": self.difference.to_dict(),
            "decision": self.decision,
            "more_seeds": self.more_seeds,
            "text": self.text,
        }


@dataclass(frozen=True)
class Comparison:
    """Everything `umsicht compare` says."""

    metric: str
    groups: tuple[Group, ...]
    contests: tuple[Contest, ...]
    changes: dict[str, dict[str, tuple[Any, Any]]]
    refused: str
    cautions: tuple[str, ...]
    level: float

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "schema": 1,
            "metric": self.metric,
            "groups": [
                {"label": one.label, "runs": [run.name for run in one.runs], "seeds": list(one.seeds)}
                for one in self.groups
            ],
            "contests": [contest.to_dict() for contest in self.contests],
            "changes": {
                label: {key: list(pair) for key, pair in one.items()} for label, one in self.changes.items()
            },
            "refused": self.refused,
            "cautions": list(self.cautions),
            "level": self.level,
        }


def compare(
    paths: Iterable[Path | str],
    *,
    metric: str | None = None,
    assigned: Mapping[str, list[str]] | None = None,
    level: float = 0.95,
) -> Comparison:
    """Compare runs. The first group is the one the others are held against.

    `refused` holds the reason (a sentence) where the runs cannot be compared; there are then no contests. Raises UserError for fewer than
    two groups or a metric no run has.
    """
    runs = load(Path(path) for path in paths)
    groups = group(runs, assigned)
    if len(groups) < 2:
        fix = t("diagnose.compare.one_group.fix")
        raise UserError(t("diagnose.compare.one_group", n=len(runs)), fix=fix)
    chosen = metric or choose_metric(runs)
    missing = [run.name for run in runs if not run.curves.get(chosen)]
    if missing:
        raise UserError(
            t("diagnose.compare.no_metric", metric=chosen, runs=", ".join(missing)), fix="--metric NAME"
        )
    refused, cautions = check(runs, chosen)
    changes = {one.label: differences(groups[0], one) for one in groups[1:]}
    contests: list[Contest] = []
    if not refused:
        # Bonferroni over the groups held against the first: with three rivals each interval is at 1 - 0.05 / 3.
        each = 1 - (1 - level) / (len(groups) - 1)
        for one in groups[1:]:
            contests += _contests(groups[0], one, chosen, each)
    return Comparison(
        chosen,
        tuple(groups),
        tuple(contests),
        changes,
        refused,
        (*cautions, *_confounded(changes)),
        level,
    )


def _confounded(changes: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return [
        t("diagnose.compare.confounded", label=label, n=len(one), keys=", ".join(list(one)[:6]))
        for label, one in changes.items()
        if len(one) > 1
    ]


def _contests(a: Group, b: Group, metric: str, level: float) -> list[Contest]:
    found = []
    for at in ("tokens", "time"):
        axes = [_axis(run.curves, metric, at) for run in (*a.runs, *b.runs)]
        if any(len(axis) < 2 for axis, _ in axes):
            if at == "tokens":
                axes = [_axis(run.curves, metric, "step") for run in (*a.runs, *b.runs)]
                found.append(_contest("step", a, b, axes, level))
            continue
        found.append(_contest(at, a, b, axes, level))
    return found


def _axis(curves: Curves, metric: str, at: str) -> tuple[Floats, Floats]:
    """(position, value) of every measurement of `metric`; the position in tokens, steps or seconds of running time."""
    series = curves.get(metric).finite()
    if at == "step":
        return series.steps.astype(np.float64), series.values
    clock = curves.get(at).finite()
    if len(clock) < 2 or not series:
        return np.array([]), np.array([])
    position = running_time(clock, curves.restarts) if at == "time" else clock
    return np.interp(series.steps, position.steps, position.values), series.values


def running_time(clock: Series, restarts: tuple[int, ...]) -> Series:
    """Seconds of running time at each step: the clock without the pause before each restart."""
    gained = np.diff(clock.values, prepend=clock.values[0])
    usual = float(np.median(gained[1:])) if len(gained) > 1 else 0.0
    for step in restarts:
        index = int(np.searchsorted(clock.steps, step))
        if 0 < index < len(gained):
            gained[index] = min(gained[index], usual)
    return Series(clock.name, clock.steps, np.cumsum(np.maximum(gained, 0.0)))


def _contest(at: str, a: Group, b: Group, axes: list[tuple[Floats, Floats]], level: float) -> Contest:
    """Values at the largest budget that every run reached."""
    budget = float(min(axis[-1] for axis, _ in axes))
    values = np.array([float(np.interp(budget, axis, value)) for axis, value in axes])
    one, other = values[: len(a.runs)], values[len(a.runs) :]
    if min(len(one), len(other)) >= BOOTSTRAP_FROM:
        difference = stats.bootstrap(one, other, level)
    else:
        difference = stats.welch(one, other, level)
    more = None
    if not difference.decided:
        wanted = stats.seeds_to_decide(one, other, level)
        more = max(1, wanted - min(len(one), len(other))) if wanted else None
    decision = _decision(difference)
    sides = _side(a, one), _side(b, other)
    return Contest(
        at, budget, *sides, difference, decision, more, _say(at, sides, difference, decision, more)
    )


def _decision(difference: stats.Difference) -> str:
    if difference.low is None:
        return "no-spread"
    if not difference.decided:
        return "inside-noise"
    return "b-better" if difference.estimate < 0 else "a-better"


def _side(one: Group, values: Floats) -> Side:
    return Side(
        one.label,
        tuple(run.name for run in one.runs),
        one.seeds,
        tuple(float(value) for value in values),
        float(np.mean(values)),
        float(np.std(values, ddof=1)) if len(values) > 1 else None,
    )


def _say(
    at: str, sides: tuple[Side, Side], difference: stats.Difference, decision: str, more: int | None
) -> str:
    a, b = sides
    numbers: dict[str, Any] = {
        "a": a.label,
        "b": b.label,
        "difference": f"{difference.estimate:+.4g}",
        "low": f"{difference.low:+.4g}" if difference.low is not None else "?",
        "high": f"{difference.high:+.4g}" if difference.high is not None else "?",
        "level": f"{100 * difference.level:.3g}",
        "at": t(f"diagnose.compare.at.{at}"),
    }
    text = t(f"diagnose.compare.decision.{decision}", **numbers)
    if decision == "inside-noise":
        if more is None:
            text += " " + t("diagnose.compare.more_unknown")
        elif more >= stats.MOST_SEEDS - max(len(a.values), len(b.values)):
            text += " " + t("diagnose.compare.more_hopeless")
        else:
            text += " " + t("diagnose.compare.more", count=more)
    return text
