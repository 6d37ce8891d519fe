"""A verdict may rest only on numbers that are there: holes in the record beside a cited number make it uncertain."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from umsicht.diagnose.curves import GRAD, LR, TRAIN, TRAIN_EVAL, Curves
from umsicht.diagnose.model import Evidence
from umsicht.diagnose.series import Series, common


@dataclass(frozen=True)
class Citation:
    """Evidence and the stretch of its series that must be whole for it to count (one cadence to each side by default)."""

    evidence: Evidence
    first: int
    last: int


def cite(
    series: Series, step: float, role: str, *, first: int | None = None, last: int | None = None
) -> Citation:
    """The point of `series` nearest to `step`, cited by its value in the file. `series` must not be empty."""
    index = series.at(step)
    at = int(series.steps[index])
    cadence = max(series.cadence, 1)
    return Citation(
        Evidence(series.name, at, float(series.values[index]), role),
        at - cadence if first is None else first,
        at + cadence if last is None else last,
    )


def last_on_grid(series: Series) -> int:
    """The last step that follows the series' own cadence (a final measurement off the grid can be missing without a trace)."""
    cadence = series.cadence
    if not series.regular() or len(series) < 3:
        return int(series.steps[-1])
    phase = int(series.steps[-2]) % cadence
    return int(series.steps[-1] if int(series.steps[-1]) % cadence == phase else series.steps[-2])


def holes(curves: Curves, citations: Iterable[Citation]) -> list[tuple[str, int]]:
    """(metric, step) of measurements that should stand within the cited stretches and do not."""
    citations = tuple(citations)
    found: dict[tuple[str, int], None] = {}
    for citation in citations:
        name = citation.evidence.metric
        series = curves.get(name)
        for step in _missing(curves, series, citation.first, citation.last):
            found[(name, step)] = None
    for name, step in _unmeasured_slices(curves, {citation.evidence.metric for citation in citations}):
        found[(name, step)] = None
    return sorted(found)


def _unmeasured_slices(curves: Curves, cited: set[str]) -> list[tuple[str, int]]:
    """Validations in which a cited figure is missing while the others of the same validation were written."""
    found = []
    for name in cited:
        if not name.startswith("val/") or not curves.get(name):
            continue
        group = {step for other in _siblings(curves, name) for step in curves.get(other).steps.tolist()}
        found += [(name, step) for step in group - set(curves.get(name).steps.tolist())]
    return found


def _missing(curves: Curves, series: Series, first: int, last: int) -> list[int]:
    if not series:
        return []
    there = set(series.between(first, last).steps.tolist())
    expected = _siblings_have(curves, series.name, first, last)
    cadence = series.cadence
    if series.regular():
        expected |= _grid(curves, series, cadence, first, last)
    return sorted(step for step in expected - there if step >= 1 or series.name != TRAIN)


def _grid(curves: Curves, series: Series, cadence: int, first: int, last: int) -> set[int]:
    """Steps of the series' own rhythm inside the stretch, between the ends of the record."""
    starts, ends = int(series.steps[0]), int(series.steps[-1])
    phase = starts % cadence if len(series) < 3 else int(series.steps[1]) % cadence
    low = first if first >= starts else max(first, 1)
    # A log that begins far into the training is a continuation, not a log with a hole at its start.
    if first < starts and starts > 3 * cadence and curves.first_step > cadence:
        low = starts
    end = max(curves.last_step, _finish(curves))
    if starts == 0 and series.name in (TRAIN, GRAD, LR):
        end -= 1  # steps counted from 0: the last batch carries the number before the last
    high = min(last, end)
    if last > ends and high < ends + cadence:
        high = min(high, ends)
    begin = low + (phase - low) % cadence
    return set(range(begin, high + 1, cadence))


def _finish(curves: Curves) -> int:
    return curves.planned_steps if curves.finished and curves.planned_steps else 0


def _siblings_have(curves: Curves, name: str, first: int, last: int) -> set[int]:
    """Steps at which other metrics written in the same row stand inside the stretch."""
    steps: set[int] = set()
    for other in _siblings(curves, name):
        at = curves.get(other).steps
        steps |= set(at[(at >= first) & (at <= last)].tolist())
    return steps


def _siblings(curves: Curves, name: str) -> list[str]:
    if name in (TRAIN, GRAD, LR):
        return [other for other in (TRAIN, GRAD, LR) if other != name and _same_rhythm(curves, other, name)]
    if name.startswith("val/") or name == TRAIN_EVAL:
        return [
            other
            for other in curves.series
            if (other.startswith("val/") or other == TRAIN_EVAL)
            and other != name
            and _same_rhythm(curves, other, name)
        ]
    return []


def _same_rhythm(curves: Curves, other: str, name: str) -> bool:
    """Two metrics belong to one row where at least eight of ten steps agree."""
    a, b = curves.get(other).steps, curves.get(name).steps
    if len(a) == 0 or len(b) == 0:
        return False
    return common(a, b) >= 0.8 * max(len(a), len(b)) - 1
