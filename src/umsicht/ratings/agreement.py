"""How far raters agree beyond chance: Krippendorff's alpha, percent agreement, Cohen's kappa of two raters.

Alpha after Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011): 1 - observed / expected disagreement over
the coincidence matrix; the ordinal distance is the one of that paper (squared sum of ranks between two values).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Level = Literal["nominal", "ordinal", "interval"]
Floats = NDArray[np.float64]
Units = Sequence[Sequence[float]]
"""For each rated thing the values it got, in any order; how many may differ."""


def coincidences(units: Units) -> tuple[Floats, Floats]:
    """(values [v] in ascending order, coincidence matrix [v, v]); things with fewer than two values do not count."""
    pairable = [list(unit) for unit in units if len(unit) >= 2]
    values = (
        np.unique(np.concatenate([np.asarray(u, dtype=float) for u in pairable])) if pairable else np.zeros(0)
    )
    matrix = np.zeros((values.size, values.size))
    for unit in pairable:
        counts = np.bincount(np.searchsorted(values, unit), minlength=values.size).astype(float)
        matrix += (np.outer(counts, counts) - np.diag(counts)) / (len(unit) - 1)
    return values, matrix


def distances(values: Floats, totals: Floats, level: Level) -> Floats:
    """Squared distance between each pair of values, `[v, v]`."""
    if level == "nominal":
        return np.asarray(1.0 - np.eye(values.size))
    if level == "interval":
        return np.asarray((values[:, None] - values[None, :]) ** 2)
    below = np.cumsum(totals) - totals / 2
    return np.asarray((below[:, None] - below[None, :]) ** 2)


def alpha(units: Units, level: Level) -> float | None:
    """Krippendorff's alpha; None where nothing was rated twice or all values are equal (nothing to agree about)."""
    values, matrix = coincidences(units)
    return _alpha(values, matrix, level)


def _alpha(values: Floats, matrix: Floats, level: Level) -> float | None:
    totals = matrix.sum(1)
    n = totals.sum()
    if values.size < 2 or n < 2:
        return None
    weight = distances(values, totals, level)
    observed = float((matrix * weight).sum())
    expected = float((np.outer(totals, totals) * weight).sum()) / (n - 1)
    return 1.0 - observed / expected if expected > 0 else None


def bootstrap(
    units: Units, level: Level, *, draws: int = 1_000, seed: int = 0, confidence: float = 0.95
) -> tuple[float, float] | None:
    """Percentile interval of alpha over resampled things; None where too few draws have an alpha."""
    pairable = [unit for unit in units if len(unit) >= 2]
    if len(pairable) < 5:
        return None
    values, _ = coincidences(pairable)
    # alpha depends on the sum of per-thing coincidence matrices only
    singles = np.zeros((len(pairable), values.size, values.size))
    for i, unit in enumerate(pairable):
        counts = np.bincount(np.searchsorted(values, unit), minlength=values.size).astype(float)
        singles[i] = (np.outer(counts, counts) - np.diag(counts)) / (len(unit) - 1)
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(draws):
        weights = np.bincount(rng.integers(0, len(pairable), len(pairable)), minlength=len(pairable))
        drawn = _alpha(values, np.tensordot(weights, singles, 1), level)
        if drawn is not None:
            found.append(drawn)
    if len(found) < draws / 2:
        return None
    low, high = np.quantile(found, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def percent(units: Units) -> float | None:
    """Share of pairs of ratings of the same thing that are equal."""
    equal = pairs = 0
    for unit in units:
        for i, first in enumerate(unit):
            for second in unit[i + 1 :]:
                pairs += 1
                equal += first == second
    return equal / pairs if pairs else None


def kappa(first: Mapping[Any, Any], second: Mapping[Any, Any]) -> float | None:
    """Cohen's kappa (1960) of two raters over the things both rated; None where chance agreement is complete or nothing is shared."""
    shared = [key for key in first if key in second]
    if not shared:
        return None
    a, b = [first[k] for k in shared], [second[k] for k in shared]
    n = len(shared)
    observed = sum(x == y for x, y in zip(a, b, strict=True)) / n
    chance = sum((a.count(v) / n) * (b.count(v) / n) for v in set(a) | set(b))
    return (observed - chance) / (1 - chance) if chance < 1 else None


def cluster_interval(
    groups: Sequence[Sequence[float]],
    figure: Callable[[Floats], float],
    *,
    draws: int = 2_000,
    seed: int = 0,
    confidence: float = 0.95,
) -> tuple[float, float] | None:
    """Percentile interval of a figure of all values when whole groups (the answers to one prompt) are resampled."""
    if len(groups) < 5:
        return None
    rng = np.random.default_rng(seed)
    arrays = [np.asarray(group, dtype=float) for group in groups]
    found = [
        figure(np.concatenate([arrays[i] for i in rng.integers(0, len(arrays), len(arrays))]))
        for _ in range(draws)
    ]
    low, high = np.quantile(found, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)
