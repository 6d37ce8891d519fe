"""Runs side by side: what differs in their recipes, which of them are seeds of one another, their curves on one grid."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from umsicht.dashboard.buckets import bucket_width, reduce
from umsicht.record.columns import Columns, replaced_rows

Floats = npt.NDArray[np.float64]
# A name and the number of the dice are no change of the experiment; where things lie on disk is none either.
NEUTRAL = ("name", "seed", "out", "path")
HIGHLIGHTED = 6


@dataclass(frozen=True)
class Difference:
    """One setting with its value in each run, in the order of the runs."""

    key: str
    values: tuple[str, ...]
    is_change: bool


def differences(settings: Sequence[Mapping[str, str]]) -> tuple[list[Difference], int]:
    """Settings that differ, and how many settings agree. A differing seed is shown but is no change of the experiment."""
    keys = list(dict.fromkeys(key for each in settings for key in each))
    found, equal = [], 0
    for key in keys:
        values = tuple(each.get(key, "–") for each in settings)
        if len(set(values)) == 1:
            equal += 1
        else:
            found.append(Difference(key, values, key.rpartition(".")[2] not in NEUTRAL))
    return sorted(found, key=lambda item: not item.is_change), equal


def seed_groups(settings: Mapping[str, Mapping[str, str]]) -> list[list[str]]:
    """Runs that differ in nothing but neutral settings, grouped; the order of first appearance is kept."""
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for run, values in settings.items():
        key = tuple(
            sorted((name, value) for name, value in values.items() if name.rpartition(".")[2] not in NEUTRAL)
        )
        groups.setdefault(key, []).append(run)
    return list(groups.values())


def on_grid(columns: Columns, key: str, axis: str, width: float) -> dict[int, float]:
    """The mean value of each bucket, for averages over runs; history that a restart replaced is left out."""
    column = columns.series.get(key)
    if column is None:
        return {}
    good = np.isfinite(column.values) & ~replaced_rows(columns)[column.rows]
    buckets = np.floor(columns.axis(axis)[column.rows[good]] / width).astype(np.int64)
    values = column.values[good]
    names, inverse = np.unique(buckets, return_inverse=True)
    sums = np.bincount(inverse, weights=values)
    counts = np.bincount(inverse)
    return dict(zip(names.tolist(), (sums / counts).tolist(), strict=True))


def band(grids: Iterable[Mapping[int, float]], *, spread: bool) -> dict[str, list[float]] | None:
    """Mean and bounds over runs, on the buckets that all of them have: ± one sample standard deviation, or the extremes.

    None for fewer than two runs: one run has no spread, and a band would claim one.
    """
    runs = [grid for grid in grids if grid]
    if len(runs) < 2:
        return None
    shared = sorted(set.intersection(*(set(grid) for grid in runs)))
    if not shared:
        return None
    table = np.array([[grid[bucket] for bucket in shared] for grid in runs])
    mean = table.mean(axis=0)
    if spread:
        deviation = table.std(axis=0, ddof=1)
        low, high = mean - deviation, mean + deviation
    else:
        low, high = table.min(axis=0), table.max(axis=0)
    return {
        "i": [float(bucket) for bucket in shared],
        "mean": mean.tolist(),
        "low": low.tolist(),
        "high": high.tolist(),
    }


def common_width(all_columns: Iterable[Columns], axis: str, pixels: int) -> float:
    """One bucket width for all runs, so that they share a grid."""
    low, high = math.inf, -math.inf
    for columns in all_columns:
        if columns.n:
            x = columns.axis(axis)
            low, high = min(low, float(x.min())), max(high, float(x.max()))
    return bucket_width(low, high, pixels) if high > low else 1.0


def packed_run(columns: Columns, key: str, axis: str, width: float) -> dict[str, Any] | None:
    """One run's metric on the common grid, both extremes kept."""
    column = columns.series.get(key)
    if column is None:
        return None
    good = ~replaced_rows(columns)[column.rows]
    made = reduce(columns.axis(axis)[column.rows[good]], column.values[good], width)
    if not made.n_points:
        return None
    packed: dict[str, Any] = {"i": made.index, "a": made.first.astype(np.float32), "n": made.n_points}
    if not np.array_equal(made.first, made.second):
        packed |= {"b": made.second.astype(np.float32), "l": made.last.astype(np.float32)}
    return packed


def last_shared(all_columns: Sequence[Columns], key: str, axis: str) -> float | None:
    """The largest x that every run has reached with this metric: figures compared beyond it would favour the longer run."""
    ends = []
    for columns in all_columns:
        column = columns.series.get(key)
        if column is None or not len(column.rows):
            return None
        ends.append(float(columns.axis(axis)[column.rows].max()))
    return min(ends) if ends else None


def value_at(columns: Columns, key: str, axis: str, x: float) -> float | None:
    """The newest finite value at or before `x`."""
    column = columns.series.get(key)
    if column is None:
        return None
    good = (
        np.isfinite(column.values)
        & ~replaced_rows(columns)[column.rows]
        & (columns.axis(axis)[column.rows] <= x)
    )
    return float(column.values[good][-1]) if good.any() else None
