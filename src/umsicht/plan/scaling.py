"""A scaling law fitted to a few small trainings, and the score it predicts for a larger one, with an interval.

The form is L(N, D) = E + A·N^-α + B·D^-β (Hoffmann et al. 2022, equation 2), L in bits a byte, N parameters without the tables, D tokens seen.
Five unknowns cannot be fitted to half a dozen points, so E, α and β get priors around published fits, A and B follow by least squares for each
draw, and draws are weighted by how well they explain the points. The prediction is the weighted median, the interval the weighted quantiles with
the noise of a single training added.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

DRAWS = 20_000
NOISE = 0.012
"""Relative standard deviation of one training's score that the law does not explain: seeds, schedule, wiggles of the law itself."""
NOISE_GROWTH = 0.006
"""Added for each doubling of tokens or parameters beyond the largest trial."""
_ALPHA, _BETA = (0.34, 0.12), (0.30, 0.10)
_FLOOR = (0.15, 0.75)


@dataclass(frozen=True)
class Point:
    """One finished training: parameters without tables, tokens seen, bits a byte at its end."""

    parameters: float
    tokens: float
    bpb: float


@dataclass(frozen=True)
class Prediction:
    """What is expected, and the interval that should hold it in `level` of all cases."""

    value: float
    low: float
    high: float
    level: float

    def holds(self, actual: float) -> bool:
        """Whether the interval holds what came out."""
        return self.low <= actual <= self.high

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)


class ScalingLaw:
    """The law fitted to `points`; the same points give the same law. Raises ValueError for fewer than three points."""

    def __init__(self, points: Sequence[Point], *, seed: int = 0) -> None:
        if len(points) < 3:
            raise ValueError(f"a scaling law needs at least three trainings, not {len(points)}")
        self.points = tuple(points)
        self._n0 = float(np.exp(np.mean([math.log(p.parameters) for p in points])))
        self._d0 = float(np.exp(np.mean([math.log(p.tokens) for p in points])))
        scores = np.asarray([p.bpb for p in points])
        rng = np.random.Generator(np.random.PCG64(seed))
        self.alpha = np.clip(rng.normal(*_ALPHA, DRAWS), 0.05, 1.0)
        self.beta = np.clip(rng.normal(*_BETA, DRAWS), 0.05, 1.0)
        self.floor = rng.uniform(*_FLOOR, DRAWS) * scores.min()
        self.a, self.b = self._solve(scores)
        fitted = self._values(*self._scaled([p.parameters for p in points], [p.tokens for p in points]))
        errors = np.log(fitted / scores)
        self.weights = _weights((errors**2).sum(1) / NOISE**2)
        self.residual = float(np.sqrt(self.weights @ (errors**2).mean(1)))
        self._rng_state = rng.standard_normal(DRAWS)

    def predict(self, parameters: float, tokens: float, level: float = 0.8) -> Prediction:
        """The score of a training of this size and length."""
        values = self._values(*self._scaled([parameters], [tokens]))[:, 0]
        noise = math.hypot(max(NOISE, self.residual), NOISE_GROWTH * self._doublings(parameters, tokens))
        spread = values * np.exp(noise * self._rng_state)
        low, value, high = _quantiles(spread, self.weights, ((1 - level) / 2, 0.5, (1 + level) / 2))
        return Prediction(value, low, high, level)

    def summary(self) -> dict[str, Any]:
        """Weighted means of the unknowns, the unexplained error, and how many draws carry the weight."""
        w = self.weights
        return {
            "floor": float(w @ self.floor),
            "alpha": float(w @ self.alpha),
            "beta": float(w @ self.beta),
            "residual": self.residual,
            "effective_draws": float(1 / (w**2).sum()),
            "points": [asdict(point) for point in self.points],
        }

    def _scaled(self, parameters: Sequence[float], tokens: Sequence[float]) -> tuple[Floats, Floats]:
        return np.asarray(parameters, float) / self._n0, np.asarray(tokens, float) / self._d0

    def _values(self, n: Floats, d: Floats) -> Floats:
        size = self.a[:, None] * n[None, :] ** -self.alpha[:, None]
        data = self.b[:, None] * d[None, :] ** -self.beta[:, None]
        values: Floats = self.floor[:, None] + size + data
        return values

    def _solve(self, scores: Floats) -> tuple[Floats, Floats]:
        """A and B of each draw, not negative, by relative least squares."""
        n, d = self._scaled([p.parameters for p in self.points], [p.tokens for p in self.points])
        x = n[None, :] ** -self.alpha[:, None] / scores
        y = d[None, :] ** -self.beta[:, None] / scores
        rest = 1 - self.floor[:, None] / scores
        xx, yy, xy = (x * x).sum(1), (y * y).sum(1), (x * y).sum(1)
        xr, yr = (x * rest).sum(1), (y * rest).sum(1)
        # A ridge that is far below the data keeps trials of one size only from an arbitrary split between both terms.
        xx, yy = xx * (1 + 1e-6), yy * (1 + 1e-6)
        determinant = xx * yy - xy**2
        a, b = (yy * xr - xy * yr) / determinant, (xx * yr - xy * xr) / determinant
        only_data, only_size = a < 0, b < 0
        b = np.where(only_data, yr / yy, b)
        a = np.where(only_size, xr / xx, a)
        return np.maximum(a, 0), np.maximum(b, 0)

    def _doublings(self, parameters: float, tokens: float) -> float:
        beyond_n = parameters / max(p.parameters for p in self.points)
        beyond_d = tokens / max(p.tokens for p in self.points)
        return max(0.0, math.log2(beyond_n)) + max(0.0, math.log2(beyond_d))


def _weights(chi2: Floats) -> Floats:
    weights = np.exp(-0.5 * (chi2 - chi2.min()))
    normal: Floats = weights / weights.sum()
    return normal


def _quantiles(values: Floats, weights: Floats, levels: Sequence[float]) -> list[float]:
    order = np.argsort(values)
    cumulative = np.cumsum(weights[order])
    return [float(values[order][min(len(values) - 1, int(np.searchsorted(cumulative, q)))]) for q in levels]
