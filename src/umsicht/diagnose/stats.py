"""Means, intervals and the number of seeds that would decide. Student's t without scipy: the core stays light."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from umsicht.diagnose.series import Floats

MOST_SEEDS = 200


@dataclass(frozen=True)
class Difference:
    """`b` minus `a`: estimate, interval at `level`, and what it was computed from; None where it cannot be."""

    estimate: float
    low: float | None
    high: float | None
    p: float | None
    degrees: float | None
    level: float
    method: str

    @property
    def decided(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return {**asdict(self), "decided": self.decided}


def welch(a: Floats, b: Floats, level: float = 0.95) -> Difference:
    """Welch's interval for the difference of two means (Welch 1947; degrees of freedom after Satterthwaite 1946).

    With one value in a group there is no spread: estimate only. Values that are all equal give an interval of no width.
    """
    estimate = float(np.mean(b) - np.mean(a))
    if len(a) < 2 or len(b) < 2:
        return Difference(estimate, None, None, None, None, level, "none")
    va, vb = float(np.var(a, ddof=1)) / len(a), float(np.var(b, ddof=1)) / len(b)
    if va + vb == 0:
        return Difference(estimate, estimate, estimate, 0.0 if estimate else 1.0, math.inf, level, "welch")
    degrees = (va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1))
    error = math.sqrt(va + vb)
    half = t_quantile(0.5 + level / 2, degrees) * error
    p = 2 * (1 - t_cdf(abs(estimate) / error, degrees))
    return Difference(estimate, estimate - half, estimate + half, p, degrees, level, "welch")


def paired(a: Floats, b: Floats, level: float = 0.95) -> Difference:
    """Student's interval for the mean of `b - a` of matched values (the same seed, the same data order)."""
    differences = b - a
    n = len(differences)
    estimate = float(np.mean(differences))
    if n < 2:
        return Difference(estimate, None, None, None, None, level, "none")
    error = float(np.std(differences, ddof=1)) / math.sqrt(n)
    if error == 0:
        return Difference(estimate, estimate, estimate, 0.0 if estimate else 1.0, n - 1, level, "paired")
    half = t_quantile(0.5 + level / 2, n - 1) * error
    p = 2 * (1 - t_cdf(abs(estimate) / error, n - 1))
    return Difference(estimate, estimate - half, estimate + half, p, n - 1, level, "paired")


def bootstrap(a: Floats, b: Floats, level: float = 0.95, *, draws: int = 4_000, seed: int = 0) -> Difference:
    """Percentile bootstrap of the difference of means (Efron 1979); for groups of at least eight, where it holds what it says."""
    rng = np.random.default_rng(seed)
    means_a = a[rng.integers(len(a), size=(draws, len(a)))].mean(axis=1)
    means_b = b[rng.integers(len(b), size=(draws, len(b)))].mean(axis=1)
    low, high = np.quantile(means_b - means_a, [0.5 - level / 2, 0.5 + level / 2])
    return Difference(float(np.mean(b) - np.mean(a)), float(low), float(high), None, None, level, "bootstrap")


def seeds_to_decide(a: Floats, b: Floats, level: float = 0.95, power: float = 0.8) -> int | None:
    """Seeds a group (in all) with which a difference of this size would be decided, or None where no spread or no difference is known.

    The smallest n with n >= (t(level, 2n-2) + t(power, 2n-2))^2 (s_a^2 + s_b^2) / d^2: the usual sample size of two means, with
    Student quantiles in place of normal ones.
    """
    if len(a) < 2 or len(b) < 2:
        return None
    difference = float(np.mean(b) - np.mean(a))
    spread = float(np.var(a, ddof=1) + np.var(b, ddof=1))
    if difference == 0 or spread == 0:
        return None
    for n in range(2, MOST_SEEDS + 1):
        degrees = 2 * n - 2
        need = (
            (t_quantile(0.5 + level / 2, degrees) + t_quantile(power, degrees)) ** 2 * spread / difference**2
        )
        if n >= need:
            return n
    return MOST_SEEDS


def t_cdf(t: float, degrees: float) -> float:
    """Distribution function of Student's t through the regularised incomplete beta function."""
    if math.isinf(degrees):
        return 0.5 * (1 + math.erf(t / math.sqrt(2)))
    tail = 0.5 * _incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t))
    return 1 - tail if t >= 0 else tail


def t_quantile(p: float, degrees: float) -> float:
    """Inverse of `t_cdf` by bisection, to about 1e-12 of its value."""
    if p == 0.5:
        return 0.0
    if p < 0.5:
        return -t_quantile(1 - p, degrees)
    low, high = 0.0, 1.0
    while t_cdf(high, degrees) < p and high < 1e12:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if t_cdf(middle, degrees) < p:
            low = middle
        else:
            high = middle
        if high - low <= 1e-13 * high:
            break
    return (low + high) / 2


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """Regularised incomplete beta by its continued fraction (Lentz's method; Abramowitz and Stegun 26.5.8)."""
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(b, a, 1 - x)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    tiny = 1e-300
    c, d = 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > tiny else tiny)
    result = d
    for m in range(1, 400):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 + numerator * d
            d = 1 / (d if abs(d) > tiny else tiny)
            c = 1 + numerator / (c if abs(c) > tiny else tiny)
            result *= d * c
        if abs(d * c - 1) < 1e-15:
            break
    return front * result / a
