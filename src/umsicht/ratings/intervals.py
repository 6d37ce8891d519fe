"""Exact and closed-form figures for shares: the binomial test, Wilson's interval, power, and what a round can show at all."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


def binomial(n: int, p: float) -> NDArray[np.float64]:
    """Probabilities of 0..n successes."""
    if p <= 0 or p >= 1:
        certain = np.zeros(n + 1)
        certain[0 if p <= 0 else n] = 1.0
        return certain
    k = np.arange(n + 1)
    logs = (
        math.lgamma(n + 1)
        - np.array([math.lgamma(i + 1) + math.lgamma(n - i + 1) for i in k])
        + k * math.log(p)
        + (n - k) * math.log1p(-p)
    )
    return np.asarray(np.exp(logs))


def binomial_test(successes: int, n: int, p: float = 0.5) -> float:
    """Exact two-sided p-value: the probability of every outcome that is no more likely than the one seen."""
    if n == 0:
        return 1.0
    probabilities = binomial(n, p)
    seen = probabilities[successes]
    return float(min(1.0, probabilities[probabilities <= seen * (1 + 1e-7)].sum()))


def wilson(successes: float, n: float, z: float = 1.959963984540054) -> tuple[float, float]:
    """Wilson's score interval of a share (1927); (0, 1) where n is 0. `successes` may hold halves (ties)."""
    if n <= 0:
        return 0.0, 1.0
    share = successes / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low, high = max(0.0, centre - half), min(1.0, centre + half)
    return (0.0 if successes == 0 else low), (1.0 if successes == n else high)


def power(n: int, preference: float, significance: float = 0.05) -> float:
    """Probability that n decided pairs show a true preference (0.5..1) by the two-sided sign test."""
    null = binomial(n, 0.5)
    tail = np.cumsum(null)
    # largest k with P(X <= k) <= significance / 2; the test is symmetric
    reached = np.flatnonzero(tail <= significance / 2)
    if reached.size == 0:
        return 0.0
    edge = int(reached[-1])
    true = binomial(n, preference)
    return float(true[: edge + 1].sum() + true[n - edge :].sum())


@dataclass(frozen=True)
class Plan:
    """What a round of `pairs` can show: a preference of `detectable` or more is found with probability `power`."""

    pairs: int
    ties: float
    decided: int
    detectable: float | None
    power: float
    significance: float

    @property
    def odds(self) -> str:
        """As people say it: 70/30."""
        if self.detectable is None:
            return "—"
        share = round(100 * self.detectable)
        return f"{share}/{100 - share}"


def plan(pairs: int, *, ties: float = 0.0, wanted_power: float = 0.8, significance: float = 0.05) -> Plan:
    """The smallest preference that `pairs` prompts, a share `ties` of them undecided, can show."""
    decided = round(pairs * (1 - ties))
    low, high = 0.5, 1.0
    if decided == 0 or power(decided, 1.0, significance) < wanted_power:
        return Plan(pairs, ties, decided, None, wanted_power, significance)
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (low, middle) if power(decided, middle, significance) >= wanted_power else (middle, high)
    return Plan(pairs, ties, decided, high, wanted_power, significance)


def pairs_needed(
    preference: float, *, ties: float = 0.0, wanted_power: float = 0.8, significance: float = 0.05
) -> int:
    """The number of pairs that show a preference (for example 0.6 = 60/40). Raises ValueError unless 0.5 < preference <= 1 and 0 < wanted_power < 1."""
    if not 0.5 < preference <= 1.0:
        raise ValueError(f"a preference to be shown lies above 0.5, at most 1; got {preference}")
    if not 0.0 <= ties < 1.0:
        raise ValueError(f"the share of ties lies in [0, 1); got {ties}")
    if not 0.0 < wanted_power < 1.0:
        raise ValueError(f"no number of pairs gives a power of {wanted_power}")
    low, high = 1, 8
    while power(high, preference, significance) < wanted_power:
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (low, middle) if power(middle, preference, significance) >= wanted_power else (middle, high)
        )
    # the exact test's power is not monotone: go on until the next few all hold
    while min(power(high + i, preference, significance) for i in range(8)) < wanted_power:
        high += 1
    return math.ceil(high / (1 - ties))
