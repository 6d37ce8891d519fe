"""Strengths from pairwise choices: the Bradley-Terry model, ties as half a win each.

Bradley and Terry, "Rank analysis of incomplete block designs" (1952); the likelihood is concave in the log strengths and is
maximised by damped Newton steps. Where one system never loses, no finite maximum exists; a prior of `virtual` half-decided
comparisons between each pair that met keeps it finite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Comparison:
    """One answer: `score` is 1 where `first` is better, 0 where `second` is, 0.5 for a tie; `group` is the prompt."""

    first: str
    second: str
    score: float
    group: str


@dataclass(frozen=True)
class Strength:
    """log strength (mean 0 over systems) with interval; `beats[other]` is the probability to be preferred to `other`."""

    system: str
    log: float
    low: float
    high: float
    beats: dict[str, float]


def wins(comparisons: Sequence[Comparison], systems: Sequence[str]) -> Floats:
    """`[systems, systems]`: how often the row's system beat the column's, ties counted half."""
    index = {name: i for i, name in enumerate(systems)}
    table = np.zeros((len(systems), len(systems)))
    for c in comparisons:
        table[index[c.first], index[c.second]] += c.score
        table[index[c.second], index[c.first]] += 1 - c.score
    return table


def fit(table: Floats, *, virtual: float = 0.0, tolerance: float = 1e-9, rounds: int = 100) -> Floats:
    """log strengths with mean 0. Raises ValueError where the systems do not all hang together by wins (no finite fit)."""
    table = table + virtual / 2 * ((table + table.T) > 0)
    if not _connected(table):
        raise ValueError("no finite strengths: a system never won, never lost, or was never compared")
    played, won = table + table.T, table.sum(1)
    log = np.zeros(len(table))
    value = _likelihood(table, log)
    for _ in range(rounds):
        chance = 1 / (1 + np.exp(log[None, :] - log[:, None]))
        slope = won - (played * chance).sum(1)
        curve = played * chance * chance.T
        step = np.linalg.pinv(np.diag(curve.sum(1)) - curve) @ slope
        while _likelihood(table, log + step) < value - 1e-12:
            step = step / 2
        log = log + step
        value = _likelihood(table, log)
        if np.max(np.abs(step)) < tolerance:
            break
    return np.asarray(log - log.mean())


def _likelihood(table: Floats, log: Floats) -> float:
    return float(-(table * np.logaddexp(0, log[None, :] - log[:, None])).sum())


def _connected(table: Floats) -> bool:
    """Whether every system reaches every other along wins (Ford 1957: exactly then the maximum is finite and unique)."""
    reach = (table > 0).astype(float) + np.eye(len(table))
    for _ in range(len(table)):
        reach = np.minimum(reach @ reach, 1.0)
    return bool((reach > 0).all())


def strengths(
    comparisons: Sequence[Comparison], *, virtual: float = 1.0, draws: int = 500, seed: int = 0
) -> list[Strength]:
    """Strongest first, with 95 % intervals from resampling prompts."""
    systems = sorted({c.first for c in comparisons} | {c.second for c in comparisons})
    point = fit(wins(comparisons, systems), virtual=virtual)
    groups: dict[str, list[Comparison]] = {}
    for c in comparisons:
        groups.setdefault(c.group, []).append(c)
    tables = np.stack([wins(members, systems) for members in groups.values()])
    rng = np.random.default_rng(seed)
    drawn = []
    for _ in range(draws):
        weights = np.bincount(rng.integers(0, len(tables), len(tables)), minlength=len(tables))
        try:
            drawn.append(fit(np.tensordot(weights, tables, 1), virtual=virtual, tolerance=1e-6))
        except ValueError:
            continue  # a system missing from this resample
    low, high = np.quantile(np.array(drawn), [0.025, 0.975], axis=0) if drawn else (point, point)
    chance = 1 / (1 + np.exp(point[None, :] - point[:, None]))
    result = [
        Strength(
            name,
            float(point[i]),
            float(low[i]),
            float(high[i]),
            {other: float(chance[i, j]) for j, other in enumerate(systems) if j != i},
        )
        for i, name in enumerate(systems)
    ]
    return sorted(result, key=lambda s: -s.log)
