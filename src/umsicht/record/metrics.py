"""`metrics.jsonl`: one JSON object a line, appended and flushed; readable with `head`.

Non-finite numbers are the strings "NaN", "Infinity", "-Infinity" (bare NaN is not JSON). A reader skips a torn last line, counts lines it cannot
read, and where a step was written twice (a restart), the last writer wins.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

SCHEMA = 1
_SPELLED = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf, "Inf": math.inf, "-Inf": -math.inf}


def spell(value: Any) -> Any:
    """A value as it is written: non-finite floats become strings, numbers of other libraries become plain ones."""
    if isinstance(value, bool | str) or value is None:
        return value
    if isinstance(value, int):
        return value
    if isinstance(value, dict):
        return {key: spell(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [spell(inner) for inner in value]
    number = float(value)
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return number


def unspell(value: Any) -> Any:
    """The inverse of `spell` for one value."""
    return _SPELLED.get(value, value) if isinstance(value, str) else value


class MetricsWriter:
    """Appends rows to a run's `metrics.jsonl`. A torn line left by a killed process is closed first, so that it spoils no new row."""

    def __init__(self, path: Path | str, segment: int) -> None:
        self.path = Path(path)
        self.segment = segment
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("ab")
        if self._file.tell() and not _ends_with_newline(self.path):
            self._file.write(b"\n")

    def write(self, row: Mapping[str, Any]) -> None:
        """Write one row; `step` is required, `time` (seconds since 1970) and `segment` are filled in."""
        if "step" not in row:
            raise KeyError("a metrics row needs a step")
        full = {"time": time.time(), "segment": self.segment, **row}
        line = orjson.dumps({key: spell(value) for key, value in full.items()})
        self._file.write(line + b"\n")
        self._file.flush()

    def sync(self) -> None:
        """Force what was written to the disk (called at checkpoints)."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


@dataclass
class Metrics:
    """The rows of a `metrics.jsonl`, in order of step, and what was wrong with the file."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    torn: int = 0
    bad: int = 0
    replaced: int = 0

    def series(self, name: str) -> tuple[list[int], list[float]]:
        """Steps and values of one metric, where it was written; non-finite values as floats."""
        steps, values = [], []
        for row in self.rows:
            if name in row:
                value = unspell(row[name])
                if isinstance(value, int | float):
                    steps.append(int(row["step"]))
                    values.append(float(value))
        return steps, values

    def names(self) -> list[str]:
        """Every metric name that occurs, in order of first appearance."""
        seen: dict[str, None] = {}
        for row in self.rows:
            seen.update(dict.fromkeys(row))
        return list(seen)

    def last(self, name: str) -> Any:
        """The last value written for `name`, or None."""
        for row in reversed(self.rows):
            if name in row:
                return unspell(row[name])
        return None


def read_metrics(path: Path | str) -> Metrics:
    """Read a `metrics.jsonl`. A missing file gives no rows; damage is counted, never raised."""
    path = Path(path)
    if not path.exists():
        return Metrics()
    data = path.read_bytes()
    lines = data.split(b"\n")
    tail = lines.pop()
    metrics = _collect(lines)
    if tail:
        extra = _collect([tail])
        if extra.bad:
            metrics.torn += 1
        else:
            lines.append(tail)
            metrics = _collect(lines)
    return metrics


def _collect(lines: Iterable[bytes]) -> Metrics:
    metrics = Metrics()
    by_step: dict[int, dict[str, Any]] = {}
    for line in lines:
        if not line.strip():
            continue
        try:
            row = orjson.loads(line)
            step = int(row["step"])
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
            metrics.bad += 1
            continue
        earlier = by_step.get(step)
        if earlier is None:
            by_step[step] = row
        elif earlier.get("segment") == row.get("segment"):
            earlier.update(row)
        else:
            metrics.replaced += 1
            by_step[step] = row
    metrics.rows = [by_step[step] for step in sorted(by_step)]
    _drop_overwritten(metrics)
    return metrics


def _drop_overwritten(metrics: Metrics) -> None:
    """Rows of an earlier segment at or beyond the first step of a later one were undone by the restart."""
    first: dict[int, int] = {}
    for row in metrics.rows:
        segment = int(row.get("segment", 0))
        first[segment] = min(first.get(segment, int(row["step"])), int(row["step"]))
    kept = []
    for row in metrics.rows:
        segment, step = int(row.get("segment", 0)), int(row["step"])
        if any(other > segment and step >= start for other, start in first.items()):
            metrics.replaced += 1
        else:
            kept.append(row)
    metrics.rows = kept
