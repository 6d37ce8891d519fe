"""The gap between validation and training loss: its size, where it is going, and what repeats and slices have to do with it."""

from __future__ import annotations

import numpy as np

from umsicht.diagnose.curves import EPOCH, TRAIN, TRAIN_EVAL, Curves
from umsicht.diagnose.model import Gap
from umsicht.diagnose.series import Floats, Series, noise_sigma, theil_sen
from umsicht.diagnose.thresholds import Thresholds


def train_at(curves: Curves, steps: np.ndarray[tuple[int], np.dtype[np.int64]]) -> tuple[Series, bool]:
    """Training loss at `steps`, and whether it is like for like.

    Like for like is the loss of a fixed training sample re-measured in evaluation mode. Otherwise the median of the logged batch losses
    around each step: measured with dropout, on other tokens, and on weights that still moved.
    """
    fixed = curves.get(TRAIN_EVAL).finite()
    if len(fixed) >= 2:
        return fixed, True
    train = curves.get(TRAIN).finite()
    if not train:
        return Series.of(TRAIN, [], []), False
    reach = _reach(train)
    values = []
    for step in steps:
        index = train.at(float(step))
        values.append(float(np.median(train.values[max(0, index - reach) : index + reach + 1])))
    return Series.of(TRAIN, steps, values), False


def _reach(train: Series) -> int:
    return max(5, len(train) // 50)


def error_at(train: Series) -> float:
    """Standard error of the difference of two such medians of batch losses (1.2533 sigma / sqrt n each, normal noise)."""
    late = train.values[len(train) // 2 :]
    return 1.2533 * noise_sigma(late, 0.0) * float(np.sqrt(2.0 / (2 * _reach(train) + 1)))


def analyse(curves: Curves, limits: Thresholds) -> Gap | None:
    """The gap at every validation; None where either curve is missing."""
    val = curves.val.finite()
    if len(val) < 2:
        return None
    train, like = train_at(curves, val.steps)
    steps = np.intersect1d(val.steps, train.steps)
    if len(steps) < 2 or not val.name.endswith("/loss"):
        return None
    v = val.values[np.searchsorted(val.steps, steps)]
    t = train.values[np.searchsorted(train.steps, steps)]
    gaps = v - t
    late = slice(len(steps) // 2, None)
    slope = theil_sen(steps[late].astype(float), gaps[late])
    span = float(steps[-1] - steps[len(steps) // 2])
    growing = slope * span > max(limits.gap_growth_share * abs(float(v[-1])), 2 * noise_sigma(gaps, 1e-9))
    share = float(gaps[-1] / v[-1]) if v[-1] else 0.0
    epochs = _epochs(curves)
    by_domain = _by_domain(curves, float(t[-1]))
    return Gap(
        metric=train.name,
        like_for_like=like,
        steps=tuple(int(step) for step in steps),
        gaps=tuple(round(float(gap), 5) for gap in gaps),
        last=float(gaps[-1]),
        share=share,
        slope_per_1000_steps=slope * 1000,
        growing=bool(growing),
        epochs_seen=epochs,
        by_domain=by_domain,
        reading=_reading(share, bool(growing), epochs, gaps, limits),
    )


def _epochs(curves: Curves) -> float | None:
    epoch = curves.get(EPOCH).finite()
    if epoch:
        return float(epoch.values[-1])
    return curves.epochs_declared


def _by_domain(curves: Curves, train_last: float) -> dict[str, float]:
    return {
        name: round(float(series.finite().values[-1]) - train_last, 5)
        for name, series in curves.val_slices().items()
        if series.finite() and series.name.endswith("/loss")
    }


def _reading(share: float, growing: bool, epochs: float | None, gaps: Floats, limits: Thresholds) -> str:
    """A code for the sentence: small, shift (large from the start), repeats (grows, data repeated), growing (grows, first pass)."""
    if share < -limits.gap_growth_share:
        return "negative"
    if not growing:
        early = float(np.median(gaps[1 : max(2, len(gaps) // 3) + 1]))
        if share > limits.gap_large_share and early > 0.5 * float(gaps[-1]):
            return "shift"
        return "large" if share > limits.gap_large_share else "small"
    if epochs is not None:
        return "repeats" if epochs > 1.05 else "growing-first-pass"
    return "growing"
