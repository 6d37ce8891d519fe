"""A run's own record: `metrics.jsonl` through the record room's reader, the plan from the manifest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from umsicht.diagnose.curves import Curves, Damage, count_nonfinite
from umsicht.diagnose.series import Series
from umsicht.record.columns import Columns, read_columns
from umsicht.record.manifest import read_manifest
from umsicht.record.metrics import Metrics, unspell


def read_run(folder: Path) -> Curves:
    """The curves of a run folder and what its manifest says about the plan."""
    curves = from_columns(*read_columns(folder / "metrics.jsonl"), str(folder))
    apply_manifest(curves, read_manifest(folder) or {})
    return curves


def from_columns(columns: Columns, torn: int, source: str) -> Curves:
    """Curves of a record read as columns. Rows of an earlier segment from the first step of a later one on were undone by the restart."""
    undone = _undone(columns)
    kept = ~undone
    steps, segments = columns.step.astype(np.int64), columns.segment
    series: dict[str, Series] = {}
    for name in ("tokens", "time"):
        axis = columns.axis(name) if name == "tokens" else columns.time
        there = kept & ((axis != 0) | (steps == 0))
        if axis.any():
            series[name] = Series.of(name, steps[there], axis[there])
    for name, column in columns.series.items():
        there = kept[column.rows]
        if there.any():
            series[name] = Series.of(name, steps[column.rows[there]], column.values[there])
    order = np.argsort(steps[kept], kind="stable")
    changed = np.flatnonzero(np.diff(segments[kept][order]) != 0) + 1
    damage = Damage(torn=torn, unreadable=columns.bad, replaced=int(undone.sum()))
    damage.nonfinite = count_nonfinite(series)
    return Curves(
        series=series,
        source=source,
        rows=len(np.unique(steps[kept])),
        restarts=tuple(int(step) for step in steps[kept][order][changed]),
        damage=damage,
    )


def _undone(columns: Columns) -> NDArray[np.bool_]:
    undone = np.zeros(columns.n, dtype=np.bool_)
    limit = np.inf
    for segment in sorted(set(columns.segment.tolist()), reverse=True):
        here = columns.segment == segment
        undone |= here & (columns.step >= limit)
        limit = min(limit, float(columns.step[here].min()))
    return undone


def from_metrics(metrics: Metrics, source: str) -> Curves:
    """Columns from rows; the clock (`time`, `tokens`) is kept as series of its own."""
    series = columns(metrics.rows)
    damage = Damage(torn=metrics.torn, unreadable=metrics.bad, replaced=metrics.replaced)
    damage.nonfinite = count_nonfinite(series)
    return Curves(
        series=series,
        source=source,
        rows=len(metrics.rows),
        restarts=_restarts(metrics.rows),
        damage=damage,
    )


def columns(rows: Iterable[Mapping[str, Any]]) -> dict[str, Series]:
    """One series a metric out of rows that each hold `step`."""
    steps: dict[str, list[int]] = {}
    values: dict[str, list[float]] = {}
    for row in rows:
        step = row["step"]
        for name, value in row.items():
            if name in ("step", "segment"):
                continue
            number = unspell(value) if isinstance(value, str) else value
            if isinstance(number, bool) or not isinstance(number, int | float):
                continue
            if name not in steps:
                steps[name], values[name] = [], []
            steps[name].append(step)
            values[name].append(float(number))
    return {name: Series.of(name, steps[name], values[name]) for name in steps}


def _restarts(rows: list[dict[str, Any]]) -> tuple[int, ...]:
    """Steps at which a new segment begins."""
    found, segment = [], None
    for row in rows:
        current = row.get("segment")
        if segment is not None and current is not None and current != segment:
            found.append(int(row["step"]))
        segment = current if current is not None else segment
    return tuple(found)


def apply_manifest(curves: Curves, manifest: Mapping[str, Any]) -> None:
    """Vocabulary, planned steps, whether it finished, what it started from: each only where the manifest says so."""
    resolved = _mapping(manifest.get("resolved"))
    model = _mapping(manifest.get("model"))
    for place in (resolved, model, _mapping(resolved.get("model")), manifest):
        for key in ("n_tokens", "vocab_used", "vocab_size"):
            if curves.vocab_size is None and isinstance(place.get(key), int):
                curves.vocab_size = place[key]
    for place in (resolved, _mapping(manifest.get("plan")), _mapping(manifest.get("train")), manifest):
        for key in ("steps", "planned_steps", "total_steps"):
            if curves.planned_steps is None and isinstance(place.get(key), int) and place[key] > 0:
                curves.planned_steps = place[key]
        predicted = place.get("predicted_loss")
        if curves.predicted_loss is None and isinstance(predicted, int | float):
            curves.predicted_loss = float(predicted)
    state = manifest.get("state")
    if isinstance(state, str):
        curves.finished = state in ("finished", "early-stopped")
    inputs = _mapping(manifest.get("inputs"))
    curves.from_checkpoint = any(
        str(role).startswith("base:") or role in ("base", "checkpoint") for role in inputs
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
