"""A measured curve and the robust statistics that are read off it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
MAD_TO_SIGMA = 1.4826  # consistent for the normal distribution: 1 / Phi^-1(3/4)


@dataclass(frozen=True)
class Series:
    """One metric: `steps` [n] strictly rising, `values` [n]; non-finite values are kept."""

    name: str
    steps: Ints
    values: Floats

    @classmethod
    def of(cls, name: str, steps: Iterable[int] | Ints, values: Iterable[float] | Floats) -> Series:
        """From plain numbers; sorted by step, the last value written for a step wins."""
        steps_ = np.asarray(list(steps) if not isinstance(steps, np.ndarray) else steps, dtype=np.int64)
        values_ = np.asarray(list(values) if not isinstance(values, np.ndarray) else values, dtype=np.float64)
        if len(steps_) > 1 and not bool(np.all(np.diff(steps_) > 0)):
            order = np.argsort(steps_, kind="stable")
            steps_, values_ = steps_[order], values_[order]
            last = np.append(np.diff(steps_) > 0, True)
            steps_, values_ = steps_[last], values_[last]
        return cls(name, steps_, values_)

    def __len__(self) -> int:
        return len(self.steps)

    def __bool__(self) -> bool:
        return len(self.steps) > 0

    def finite(self) -> Series:
        """Only the finite points."""
        keep = np.isfinite(self.values)
        return self if bool(keep.all()) else Series(self.name, self.steps[keep], self.values[keep])

    def between(self, first: float, last: float) -> Series:
        """Points with `first <= step <= last`."""
        keep = (self.steps >= first) & (self.steps <= last)
        return Series(self.name, self.steps[keep], self.values[keep])

    def at(self, step: float) -> int:
        """Index of the point nearest to `step`."""
        right = int(np.searchsorted(self.steps, step))
        if right == 0:
            return 0
        if right == len(self.steps):
            return right - 1
        return right if self.steps[right] - step < step - self.steps[right - 1] else right - 1

    @property
    def cadence(self) -> int:
        """The usual distance between two points in steps; 0 where there are too few to tell."""
        if len(self.steps) < 3:
            return 0
        gaps, counts = np.unique(np.diff(self.steps), return_counts=True)
        return int(gaps[int(np.argmax(counts))])

    def regular(self) -> bool:
        """Whether at least nine of ten distances are the usual one."""
        cadence = self.cadence
        return cadence > 0 and float(np.mean(np.diff(self.steps) == cadence)) >= 0.9


def common(a: Ints, b: Ints) -> int:
    """How many values two strictly rising arrays share."""
    if len(a) == 0 or len(b) == 0:
        return 0
    place = np.minimum(np.searchsorted(b, a), len(b) - 1)
    return int(np.count_nonzero(b[place] == a))


def mad_sigma(values: Floats, floor: float = 0.0) -> float:
    """Robust standard deviation: 1.4826 times the median absolute deviation from the median."""
    if len(values) == 0:
        return floor
    return max(floor, MAD_TO_SIGMA * float(np.median(np.abs(values - np.median(values)))))


def noise_sigma(values: Floats, floor: float = 0.0) -> float:
    """Robust standard deviation of the noise around a smooth curve, from second differences (white noise: factor sqrt 6)."""
    if len(values) < 4:
        return floor
    second = np.diff(values, n=2)
    return max(floor, MAD_TO_SIGMA * float(np.median(np.abs(second))) / float(np.sqrt(6.0)))


def theil_sen(x: Floats, y: Floats, limit: int = 200) -> float:
    """Median of pairwise slopes (Theil 1950, Sen 1968); longer series are thinned to medians of blocks first."""
    if len(x) < 2:
        return 0.0
    if len(x) > limit:
        blocks = np.array_split(np.arange(len(x)), limit)
        x = np.array([np.median(x[block]) for block in blocks])
        y = np.array([np.median(y[block]) for block in blocks])
    i, j = np.triu_indices(len(x), 1)
    return float(np.median((y[j] - y[i]) / (x[j] - x[i])))


def kendall_tau(values: Floats) -> float:
    """Kendall's tau of a series against its order: 1 rises throughout, -1 falls throughout."""
    n = len(values)
    if n < 2:
        return 0.0
    i, j = np.triu_indices(n, 1)
    return float(np.mean(np.sign(values[j] - values[i])))


def trailing_median(values: Floats, width: int) -> tuple[Floats, Floats]:
    """Median and robust sigma of the `width` points *before* each point; NaN where there are fewer.

    In long series (over 4,096 points) the window moves in strides of 8 points and lies up to 7 points further back.
    """
    n = len(values)
    median = np.full(n, np.nan)
    sigma = np.full(n, np.nan)
    if n <= width:
        return median, sigma
    stride = 8 if n > 4_096 else 1
    windows = np.lib.stride_tricks.sliding_window_view(values, width)[:-1][::stride]
    middle = np.median(windows, axis=1)
    deviation = np.median(np.abs(windows - middle[:, None]), axis=1)
    median[width:] = np.repeat(middle, stride)[: n - width]
    sigma[width:] = MAD_TO_SIGMA * np.repeat(deviation, stride)[: n - width]
    return median, sigma


def running_median(values: Floats, width: int) -> Floats:
    """Centred median of `width` (odd) points; the ends use what there is."""
    n = len(values)
    if n == 0 or width < 3:
        return values.copy()
    half = min(width, n if n % 2 else n - 1) // 2
    if half == 0:
        return values.copy()
    padded = np.concatenate([values[half:0:-1], values, values[-2 : -half - 2 : -1]])
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1)
    return np.concatenate(
        [np.median(windows[start : start + 16_384], axis=1) for start in range(0, n, 16_384)]
    )
