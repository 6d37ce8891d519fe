"""Which group each row comes from, as arithmetic: no table, no random state, exact counts at any row.

Row k of a phase belongs to the group whose interval of cumulative shares holds the fraction of k·φ (an additive recurrence with the golden
ratio, the one-dimensional sequence of lowest discrepancy: Niederreiter 1992, §3.1). Shares are therefore met within a few rows at any
moment. How many of the first n rows fell to a group is a sum of floors, found by Euclid's algorithm in O(log n).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_MODULUS = 1 << 64
_STEP = 0x9E3779B97F4A7C15  # 2⁶⁴ divided by the golden ratio, odd


def floor_sum(n: int, modulus: int, factor: int, offset: int) -> int:
    """Σ over k < n of ⌊(factor·k + offset) / modulus⌋, for non-negative arguments (Graham, Knuth, Patashnik, §3.5)."""
    total = 0
    while n > 0:
        total += (n - 1) * n // 2 * (factor // modulus) + n * (offset // modulus)
        factor, offset = factor % modulus, offset % modulus
        top = factor * n + offset
        if top < modulus:
            break
        n, offset = top // modulus, top % modulus
        modulus, factor = factor, modulus
    return total


def count_below(n: int, offset: int, threshold: int) -> int:
    """How many k < n have (k·STEP + offset) mod 2⁶⁴ below `threshold`."""
    whole = floor_sum(n, _MODULUS, _STEP, offset)
    shifted = floor_sum(n, _MODULUS, _STEP, offset + _MODULUS - threshold)
    return whole - (shifted - n)


@dataclass(frozen=True)
class Phase:
    """Rows from `first_row` on, up to the next phase; `shares` sum to 1, one a group."""

    first_row: int
    shares: tuple[float, ...]

    def thresholds(self) -> list[int]:
        """Upper edges of the groups' intervals, the last one 2⁶⁴."""
        edges = [round(float(edge) * _MODULUS) for edge in np.cumsum(self.shares)]
        return [min(edge, _MODULUS) for edge in edges[:-1]] + [_MODULUS]


class GroupSchedule:
    """The group of every row and the row's ordinal within its group."""

    def __init__(self, phases: Sequence[Phase], seed: int) -> None:
        self.phases = tuple(phases)
        self.n_groups = len(self.phases[0].shares)
        self.offset = seed * 0xD1342543DE82EF95 % _MODULUS

    def counts(self, row: int) -> list[int]:
        """How many of the rows before `row` belong to each group."""
        totals = [0] * self.n_groups
        for number, phase in enumerate(self.phases):
            end = self.phases[number + 1].first_row if number + 1 < len(self.phases) else row
            n = min(row, end) - phase.first_row
            if n <= 0:
                break
            below = [count_below(n, self.offset, edge) for edge in phase.thresholds()]
            for group, (upper, lower) in enumerate(zip(below, [0, *below[:-1]], strict=True)):
                totals[group] += upper - lower
        return totals

    def groups(self, first: int, n: int) -> NDArray[np.int64]:
        """Groups of the `n` rows from `first` on, `[n]`."""
        found = np.empty(n, dtype=np.int64)
        for number, phase in enumerate(self.phases):
            end = self.phases[number + 1].first_row if number + 1 < len(self.phases) else first + n
            low, high = max(first, phase.first_row), min(first + n, end)
            if low >= high:
                continue
            k = np.arange(low - phase.first_row, high - phase.first_row, dtype=np.uint64)
            with np.errstate(over="ignore"):
                points = k * np.uint64(_STEP) + np.uint64(self.offset)
            thresholds = phase.thresholds()
            # Groups without a share in this phase that come first have the threshold 0: no point lies below it.
            edges = np.asarray([edge - 1 for edge in thresholds if edge], dtype=np.uint64)
            skipped = len(thresholds) - len(edges)
            found[low - first : high - first] = skipped + np.searchsorted(edges, points, side="left")
        return found

    def place(self, first: int, n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Group and ordinal within the group of the `n` rows from `first` on, each `[n]`."""
        groups = self.groups(first, n)
        ordinals = np.empty(n, dtype=np.int64)
        before = self.counts(first)
        for group in np.unique(groups).tolist():
            members = np.flatnonzero(groups == group)
            ordinals[members] = before[group] + np.arange(len(members))
        return groups, ordinals
