"""A run's own record: `metrics.jsonl` through the record room's reader, the plan from the manifest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from umsicht.diagnose.curves import Curves, Damage, count_nonfinite
from umsicht.diagnose.series import Series
from umsicht.record.manifest import read_manifest
from umsicht.record.metrics import Metrics, read_metrics, unspell


def read_run(folder: Path) -> Curves:
    """The curves of a run folder and what its manifest says about the plan."""
    metrics = read_metrics(folder / "metrics.jsonl")
    curves = from_metrics(metrics, str(folder))
    apply_manifest(curves, read_manifest(folder) or {})
    return curves


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
