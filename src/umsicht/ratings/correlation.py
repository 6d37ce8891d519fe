"""Does a metric still measure what people notice? Rank correlation with human ratings over checkpoints, with an interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from umsicht.findings import Finding

LOWER_IS_BETTER = ("bpb", "loss", "repetition", "looping", "copied")
FEWEST = 5


@dataclass(frozen=True)
class Correlation:
    """Spearman's rank correlation of a metric (turned so that more is better) with the ratings of the same checkpoints."""

    metric: str
    rho: float
    low: float
    high: float
    checkpoints: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def ranks(values: Sequence[float]) -> NDArray[np.float64]:
    """Ranks from 1, ties at their mean."""
    array = np.asarray(values, dtype=float)
    order = np.argsort(array, kind="stable")
    result = np.empty(array.size)
    result[order] = np.arange(1, array.size + 1)
    for value in np.unique(array):
        same = array == value
        result[same] = result[same].mean()
    return result


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Spearman's rho; None where one side does not vary."""
    a, b = ranks(first), ranks(second)
    if a.std() == 0 or b.std() == 0:
        return None
    return float(np.corrcoef(a, b)[0, 1])


def correlate(
    metrics: Mapping[str, Mapping[str, float]],
    ratings: Mapping[str, float],
    *,
    draws: int = 1_000,
    seed: int = 0,
) -> tuple[list[Correlation], list[Finding]]:
    """For each metric (`{metric: {system: value}}`) its correlation with `ratings` (`{system: strength or mean level}`).

    The interval resamples checkpoints. A finding where its upper end does not reach 0.5, or it is wholly below 0: the metric has
    lost what people see. Fewer than five rated checkpoints say nothing.
    """
    found, findings = [], []
    rng = np.random.default_rng(seed)
    for metric, values in sorted(metrics.items()):
        shared = sorted(set(values) & set(ratings))
        sign = -1.0 if metric.rpartition("/")[2] in LOWER_IS_BETTER else 1.0
        a, b = [sign * values[s] for s in shared], [ratings[s] for s in shared]
        rho = spearman(a, b) if len(shared) >= FEWEST else None
        if rho is None:
            continue
        drawn = []
        for _ in range(draws):
            pick = rng.integers(0, len(shared), len(shared))
            one = spearman([a[i] for i in pick], [b[i] for i in pick])
            if one is not None:
                drawn.append(one)
        low, high = np.quantile(drawn, [0.025, 0.975])
        correlation = Correlation(metric, rho, float(low), float(high), len(shared))
        found.append(correlation)
        if high < 0.5:
            numbers = {
                "metric": metric,
                "correlation": rho,
                "low": float(low),
                "high": float(high),
                "checkpoints": len(shared),
            }
            findings.append(Finding("RATING/metric-lost", "warn", "ratings", metric, numbers))
    return found, findings
