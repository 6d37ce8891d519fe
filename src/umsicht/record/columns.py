"""A run's metrics as columns: the form in which a hundred thousand steps fit into a few megabytes.

`metrics.jsonl` stays the truth. This module turns its lines into one dense float64 column for each of `step`, `tokens`, `time` and
`segment`, and one sparse column (row numbers + values) for everything else, because a validation figure exists on one row in hundreds.
"""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]

AXES = ("step", "tokens", "time", "segment")
PIECE_BYTES = 4 << 20
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
        self._cells: dict[str, tuple[array[int], array[float]]] = {}
        self._bad = 0

    def feed(self, lines: Iterable[bytes]) -> None:
        """Take in lines; empty ones are passed over, those without a step counted."""
        cells = self._cells
        axes = [(name, self._axes[name].append) for name in AXES]
        number = len(self._axes["step"])
        for line in lines:
            row = parse_line(line)
            if row is None:
                self._bad += bool(line.strip())
                continue
            for name, append in axes:
                value = row.pop(name, 0.0)
                append(value if isinstance(value, (int, float)) else 0.0)
            for key, value in row.items():
                if type(value) is not float:
                    value = as_number(value)
                    if value is None:
                        continue
                found = cells.get(key)
                if found is None:
                    found = cells[key] = array("i"), array("d")
                found[0].append(number)
                found[1].append(value)
            number += 1

    def columns(self) -> Columns:
        axes = [np.array(self._axes[name], np.float64) for name in AXES]
        series = {
            key: Sparse(np.array(rows, np.int32), np.array(values, np.float64))
            for key, (rows, values) in self._cells.items()
        }
        return Columns(axes[0], axes[1], axes[2], axes[3], series=series, bad=self._bad)


def as_number(value: object) -> float | None:
    """A logged value as a number, spelled non-finite ones included; None for anything else."""
    if isinstance(value, str):
        return NON_FINITE.get(value)
    return value if isinstance(value, (int, float)) else None


def parse_line(line: bytes) -> dict[str, Any] | None:
    """One line as a mapping with a numeric `step`, or None. Bare `NaN`, which other writers emit, is accepted."""
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            return None
    if type(row) is not dict:
        return None
    step = row.get("step")
    if type(step) is int:
        return row
    return row if isinstance(step, float) and math.isfinite(step) else None


def read_columns(path: Path) -> tuple[Columns, int]:
    """All rows of a `metrics.jsonl` and the number of torn last lines (0 or 1). A missing file gives no rows."""
    builder = Builder()
    torn = b""
    if path.exists():
        with path.open("rb") as file:
            while piece := file.read(PIECE_BYTES):
                head, newline, rest = (torn + piece).rpartition(b"\n")
                if newline:
                    builder.feed(head.split(b"\n"))
                torn = rest
    whole = bool(torn.strip()) and parse_line(torn) is not None
    if whole:
        builder.feed([torn])
    return builder.columns(), int(bool(torn.strip()) and not whole)


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
