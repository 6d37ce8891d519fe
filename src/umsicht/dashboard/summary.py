"""The few figures of a run that the list of runs needs, small enough to read for fifty runs at once."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from umsicht.record.columns import Columns, replaced_rows

SPARK_POINTS = 48
SILENT_AFTER_S = 120.0
RATE_ROWS = 50
CLOCK_SET_S = 600.0
"""A gap between two rows longer than this, and a hundred times the usual one, is no step: the clock was set."""


def summarise(columns: Columns, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Plain JSON: where the run is, what it measured last, a thumbnail of its training loss."""
    made: dict[str, Any] = {
        "step": None,
        "tokens": None,
        "train": columns.last("train/loss"),
        "val": columns.last("val/all/loss"),
        "bpb": columns.last("val/all/bpb"),
        "rate": columns.last("train/tokens_per_s"),
        "keys": columns.names(),
        "bad": columns.bad,
        "nonfinite": first_nonfinite(columns),
        "attempts": 1 + int(np.count_nonzero(np.diff(columns.segment) != 0)) if columns.n else 0,
        "spark": thumbnail(columns, "train/loss"),
    }
    if columns.n:
        made["step"], made["tokens"] = int(columns.step[-1]), float(columns.tokens[-1])
        made["last_write"] = float(columns.time[-1])
        made["eta_s"] = eta_seconds(columns, manifest.get("planned_steps"))
    return made


def first_nonfinite(columns: Columns) -> dict[str, Any] | None:
    """The first step of the present attempt at which the loss or the gradient was not a finite number."""
    old = replaced_rows(columns)
    found: tuple[int, str, int] | None = None
    for key in ("train/loss", "train/grad_norm", "val/all/loss"):
        column = columns.series.get(key)
        if column is None:
            continue
        odd = np.flatnonzero(~np.isfinite(column.values) & ~old[column.rows])
        if len(odd):
            step = int(columns.step[column.rows[odd[0]]])
            if found is None or step < found[0]:
                found = (step, key, len(odd))
    return dict(zip(("step", "key", "count"), found, strict=True)) if found else None


def eta_seconds(columns: Columns, planned_steps: object) -> float | None:
    """Time left at the pace of the last rows of this attempt; None without a plan or a pace."""
    if not isinstance(planned_steps, (int, float)) or columns.n < 3:
        return None
    recent = slice(max(0, columns.n - RATE_ROWS), columns.n)
    steps, times = columns.step[recent], columns.time[recent]
    same = columns.segment[recent] == columns.segment[-1]
    steps, times = steps[same], times[same]
    took, forward = np.diff(times), np.diff(steps)
    took, forward = took[forward > 0], forward[forward > 0]
    if not len(forward):
        return None
    # The system clock may have been set in between: such a gap says nothing of the pace.
    usual = float(np.median(took / forward))
    kept = (took >= 0) & (took <= max(CLOCK_SET_S, 100 * usual) * forward)
    if not took[kept].sum() > 0:
        return None
    pace = float(took[kept].sum() / forward[kept].sum())
    return float(max(0.0, (planned_steps - 1 - steps[-1]) * pace))


def thumbnail(columns: Columns, key: str) -> list[float]:
    """At most `SPARK_POINTS` medians of equal stretches; restarts' history left out."""
    column = columns.series.get(key)
    if column is None:
        return []
    good = np.isfinite(column.values) & ~replaced_rows(columns)[column.rows]
    values = column.values[good]
    if not len(values):
        return []
    parts = np.array_split(values, min(SPARK_POINTS, len(values)))
    return [round(float(np.median(part)), 5) for part in parts]


def state_of(manifest: Mapping[str, Any], summary: Mapping[str, Any], now: float | None = None) -> str:
    """The recorded state; a "running" run that has written nothing for a while is called silent instead."""
    state = str(manifest.get("state", "unknown"))
    last = summary.get("last_write")
    if state == "running" and isinstance(last, float) and math.isfinite(last):
        quiet_for = (now if now is not None else time.time()) - last
        if quiet_for > max(SILENT_AFTER_S, 20 * _pace(summary)):
            return "silent"
    return state


def _pace(summary: Mapping[str, Any]) -> float:
    eta, step = summary.get("eta_s"), summary.get("step")
    return 0.0 if not eta or not step else min(600.0, float(eta) / max(1, int(step)))
