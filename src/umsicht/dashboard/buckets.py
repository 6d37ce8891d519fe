"""Fewer points for the same picture: the smallest and the largest value of each bucket.

Buckets lie on a fixed grid whose width is a power of two, so a bucket that is complete never changes when rows are appended, and a curve
does not shimmer while a run is live. Because both extremes of every bucket are kept, no spike is lost at any zoom.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Reduced:
    """Bucket numbers (ascending) with the extremes of each, in the order in which they occurred.

    `first` and `second` are the two extremes by position: the smaller one is first where it came first. `width` is the bucket's width on
    the x axis; bucket `i` covers `[i * width, (i + 1) * width)`.
    """

    width: float
    index: npt.NDArray[np.int64]
    first: Floats
    second: Floats
    last: Floats
    n_points: int


def bucket_width(x0: float, x1: float, pixels: int) -> float:
    """The smallest power of two that covers `[x0, x1]` with at most `pixels` buckets; 1 where every step has its own."""
    span = max(x1 - x0, 0.0)
    if span <= pixels:
        return 1.0
    return float(2 ** math.ceil(math.log2(span / pixels)))


def reduce(x: Floats, y: Floats, width: float) -> Reduced:
    """Extremes and last value of each bucket of `width`; points with a non-finite coordinate are left out.

    `x` need not be sorted; equal x keep file order, so `last` is what was written last.
    """
    good = np.isfinite(x) & np.isfinite(y)
    x, y = x[good], y[good]
    if not len(x):
        nothing = np.empty(0, np.float64)
        return Reduced(width, np.empty(0, np.int64), nothing, nothing, nothing, 0)
    if np.any(np.diff(x) < 0):
        order = np.argsort(x, kind="stable")
        x, y = x[order], y[order]
    bucket = np.floor(x / width).astype(np.int64)
    starts = np.concatenate([[0], np.flatnonzero(np.diff(bucket)) + 1])
    low = np.minimum.reduceat(y, starts)
    high = np.maximum.reduceat(y, starts)
    ends = np.concatenate([starts[1:], [len(y)]])
    rising = _low_comes_first(y, starts, ends, low, high)
    return Reduced(
        width, bucket[starts], np.where(rising, low, high), np.where(rising, high, low), y[ends - 1], len(y)
    )


def _low_comes_first(
    y: Floats, starts: npt.NDArray[np.intp], ends: npt.NDArray[np.intp], low: Floats, high: Floats
) -> npt.NDArray[np.bool_]:
    n = len(y)
    sizes = ends - starts
    position = np.arange(n)
    at_low = np.minimum.reduceat(np.where(y == np.repeat(low, sizes), position, n), starts)
    at_high = np.minimum.reduceat(np.where(y == np.repeat(high, sizes), position, n), starts)
    return at_low <= at_high


def polyline(reduced: Reduced) -> tuple[Floats, Floats]:
    """The points to draw: one for a bucket whose extremes agree, two (at a quarter and three quarters of it) otherwise.

    With a width of 1 the x of a point is exact.
    """
    left = reduced.index * reduced.width
    single = reduced.first == reduced.second
    xs = np.column_stack([np.where(single, left, left + reduced.width * 0.25), left + reduced.width * 0.75])
    ys = np.column_stack([reduced.first, reduced.second])
    keep = np.column_stack([np.ones(len(left), np.bool_), ~single])
    return xs[keep], ys[keep]
