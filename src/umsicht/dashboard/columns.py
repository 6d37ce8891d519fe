"""A run's metrics as columns: the form in which a hundred thousand steps fit into a few megabytes.

`metrics.jsonl` stays the truth. This module turns its lines into one dense float64 column for each of `step`, `tokens`, `time` and
`segment`, and one sparse column (row numbers + values) for everything else, because a validation figure exists on one row in hundreds.
"""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import orjson

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]

AXES = ("step", "tokens", "time", "segment")
NON_FINITE = {
    "NaN": math.nan,
    "Infinity": math.inf,
    "-Infinity": -math.inf,
    "Inf": math.inf,
    "-Inf": -math.inf,
}


@dataclass(frozen=True)
class Sparse:
    """One metric: the rows it appears on (ascending) and its values; NaN and infinities are kept as such."""

    rows: Ints
    values: Floats


@dataclass
class Columns:
    """All metrics of one run, in file order.

    `bad` counts lines that are no JSON object with a step; they are skipped and shown, never fatal.
    """

    step: Floats
    tokens: Floats
    time: Floats
    segment: Floats
    series: dict[str, Sparse] = field(default_factory=dict)
    bad: int = 0

    @property
    def n(self) -> int:
        return len(self.step)

    def axis(self, name: str) -> Floats:
        """The column that `name` (step, tokens or time) puts on the x axis; time counts from the first row, in seconds."""
        if name == "tokens":
            return self.tokens
        if name == "time":
            return self.time - self.time[0] if self.n else self.time
        return self.step

    def names(self) -> list[str]:
        """All metrics, sorted."""
        return sorted(self.series)

    def last(self, key: str) -> float | None:
        """The newest finite value of a metric, or None."""
        column = self.series.get(key)
        if column is None:
            return None
        finite = column.values[np.isfinite(column.values)]
        return float(finite[-1]) if len(finite) else None


def empty() -> Columns:
    nothing = np.empty(0, np.float64)
    return Columns(nothing, nothing, nothing, nothing)


class Builder:
    """Collects parsed rows into compact arrays."""

    def __init__(self) -> None:
        self._axes = {name: array("d") for name in AXES}
        self._rows: dict[str, array[int]] = {}
        self._values: dict[str, array[float]] = {}
        self._bad = 0

    def feed(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            if line.strip():
                self._feed_one(line)

    def _feed_one(self, line: bytes) -> None:
        row = parse_line(line)
        if row is None:
            self._bad += 1
            return
        number = len(self._axes["step"])
        for name in AXES:
            value = row.get(name, 0)
            self._axes[name].append(value if isinstance(value, (int, float)) else 0.0)
        for key, value in row.items():
            if key in AXES:
                continue
            if isinstance(value, str):
                if value not in NON_FINITE:
                    continue
                value = NON_FINITE[value]
            elif not isinstance(value, (int, float)):
                continue
            if key not in self._rows:
                self._rows[key] = array("i")
                self._values[key] = array("d")
            self._rows[key].append(number)
            self._values[key].append(value)

    def columns(self) -> Columns:
        axes = [np.array(self._axes[name], np.float64) for name in AXES]
        series = {
            key: Sparse(np.array(rows, np.int32), np.array(self._values[key], np.float64))
            for key, rows in self._rows.items()
        }
        return Columns(axes[0], axes[1], axes[2], axes[3], series=series, bad=self._bad)


def parse_line(line: bytes) -> Mapping[str, object] | None:
    """One line as a mapping with a numeric `step`, or None. Bare `NaN`, which other writers emit, is accepted."""
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            return None
    if not isinstance(row, dict):
        return None
    step = row.get("step")
    if isinstance(step, bool) or not isinstance(step, (int, float)) or not math.isfinite(step):
        return None
    return row


def concatenate(first: Columns, second: Columns) -> Columns:
    """`second` appended to `first`; neither is changed."""
    if not second.n and not second.bad:
        return first
    axes = [np.concatenate([getattr(first, name), getattr(second, name)]) for name in AXES]
    series = dict(first.series)
    for key, column in second.series.items():
        rows = (column.rows + first.n).astype(np.int32)
        old = series.get(key)
        series[key] = (
            Sparse(np.concatenate([old.rows, rows]), np.concatenate([old.values, column.values]))
            if old
            else Sparse(rows, column.values)
        )
    return Columns(axes[0], axes[1], axes[2], axes[3], series=series, bad=first.bad + second.bad)


def replaced_rows(columns: Columns) -> npt.NDArray[np.bool_]:
    """True for the rows that a later attempt wrote again: a resume starts at a checkpoint, so what the earlier attempt had
    logged after that step is history, not part of the curve."""
    replaced = np.zeros(columns.n, np.bool_)
    if not columns.n:
        return replaced
    starts = np.concatenate([[0], attempt_starts(columns), [columns.n]]).astype(int)
    limit = math.inf
    for begin, end in zip(reversed(starts[:-1]), reversed(starts[1:]), strict=True):
        steps = columns.step[begin:end]
        replaced[begin:end] = steps >= limit
        limit = min(limit, float(steps.min()))
    return replaced


def attempt_starts(columns: Columns) -> npt.NDArray[np.intp]:
    """Row numbers at which a new attempt begins: another segment number, or (in foreign logs) a step that goes back."""
    changed = (np.diff(columns.segment) != 0) | (np.diff(columns.step) < 0)
    return np.flatnonzero(changed) + 1
