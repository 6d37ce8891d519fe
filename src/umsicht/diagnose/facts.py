"""The few numbers that the verdict is decided on, each read off the curves once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from umsicht.diagnose import gap as gaps
from umsicht.diagnose.curves import LR, TRAIN, Curves
from umsicht.diagnose.series import Series, kendall_tau, mad_sigma, noise_sigma
from umsicht.diagnose.thresholds import Thresholds


@dataclass(frozen=True)
class Facts:
    """Losses in nats (or the unit of the log); None where the record does not say."""

    initial: float | None
    train: Series
    val: Series
    train_best: float | None
    train_best_step: int
    train_end: float | None
    train_end_error: float
    train_lost: float
    val_first: float | None
    val_best: float | None
    val_best_step: int
    val_end: float | None
    val_noise: float
    val_rise: float
    like: Series
    like_for_like: bool
    like_error: float
    like_fall_after_best: float
    progress: float | None
    plateau_gain: float | None
    plateau_from: int
    still_falling: float | None
    lr_share: float | None
    unit: str

    @property
    def end(self) -> float | None:
        """Where the run stands: validation loss, else training loss."""
        return self.val_end if self.val_end is not None else self.train_end

    def ratio(self, value: float | None) -> float | None:
        """`value` as a share of the initial loss."""
        if value is None or not self.initial or self.unit != "nats":
            return None
        return value / self.initial


def gather(curves: Curves, limits: Thresholds) -> Facts:
    """Read the facts off the curves; no judgement here."""
    train, val = curves.get(TRAIN).finite(), curves.val.finite()
    best, best_step, end, error = _train_levels(train)
    like, is_like = gaps.train_at(curves, val.steps) if val else (train, False)
    noise = noise_sigma(val.values[len(val) // 3 :], 1e-6) if len(val) >= 6 else 0.0
    val_best_index = int(np.argmin(val.values)) if val else 0
    val_best = float(val.values[val_best_index]) if val else None
    val_best_step = int(val.steps[val_best_index]) if val else 0
    val_end = float(val.values[-1]) if val else None
    plateau_gain, plateau_from = _plateau(train, val, limits)
    return Facts(
        initial=curves.initial_loss,
        train=train,
        val=val,
        train_best=best,
        train_best_step=best_step,
        train_end=end,
        train_end_error=error,
        train_lost=(end - best) if end is not None and best is not None else 0.0,
        val_first=float(val.values[0]) if val else None,
        val_best=val_best,
        val_best_step=val_best_step,
        val_end=val_end,
        val_noise=noise,
        val_rise=(val_end - val_best) if val_end is not None and val_best is not None else 0.0,
        like=like,
        like_for_like=is_like,
        like_error=0.0 if is_like else gaps.error_at(train),
        like_fall_after_best=_fall_after(like, val_best_step),
        progress=curves.last_step / curves.planned_steps if curves.planned_steps else None,
        plateau_gain=plateau_gain,
        plateau_from=plateau_from,
        still_falling=_still_falling(val if len(val) >= 4 else train),
        lr_share=_lr_share(curves.get(LR).finite(), plateau_from),
        unit="nats" if not val or val.name.endswith("/loss") else "bits per byte",
    )


def windows(train: Series) -> list[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """The training points in about ten equal parts, each of at least five points."""
    parts = max(1, min(10, len(train) // 5))
    return [part for part in np.array_split(np.arange(len(train)), parts) if len(part)]


def _train_levels(train: Series) -> tuple[float | None, int, float | None, float]:
    """Lowest and last window median, where the lowest lies, and the error of their difference.

    The standard error of a median is 1.2533 sigma / sqrt n for normal noise; a difference of two has sqrt 2 of it.
    """
    if not train:
        return None, 0, None, 0.0
    parts = windows(train)
    medians = [float(np.median(train.values[part])) for part in parts]
    best = int(np.argmin(medians))
    tail = train.values[parts[-1]]
    spread = noise_sigma(tail, mad_sigma(tail) * 0.5)
    error = 1.2533 * spread * float(np.sqrt(2.0 / len(tail)))
    return medians[best], int(train.steps[parts[best][len(parts[best]) // 2]]), medians[-1], error


def _fall_after(like: Series, step: int) -> float:
    """How much the (like-for-like) training loss fell from `step` to the end."""
    if len(like) < 2:
        return 0.0
    tail = like.values[-3:]
    return float(like.values[like.at(step)] - np.median(tail))


def _plateau(train: Series, val: Series, limits: Thresholds) -> tuple[float | None, int]:
    """Relative gain over the last part of the run: the larger of training's and validation's; None where too few points lie there."""
    curve = train if len(train) >= limits.min_train_points else val
    if not curve:
        return None, 0
    first, last = int(curve.steps[0]), int(curve.steps[-1])
    start = int(last - limits.plateau_share * (last - first))
    found = []
    for one, least in ((train, 20), (val, 3)):
        part = one.between(start, last)
        if len(part) < least:
            continue
        third = max(1, len(part) // 3)
        early, late = part.values[:third], part.values[-third:]
        gain = float(np.median(early) - np.median(late))
        # A gain that the noise of two medians explains is none (1.2533 sigma / sqrt n each, normal noise).
        error = 1.2533 * noise_sigma(part.values) * float(np.sqrt(2.0 / third)) if third >= 5 else 0.0
        falls = gain > 3 * error if third >= 5 else kendall_tau(part.values) < -0.5
        found.append(gain / abs(float(np.median(early))) if falls else 0.0)
    return (max(found) if found else None), start


def _still_falling(curve: Series) -> float | None:
    """Relative gain from two thirds of the run to its end; a run twice as long gains about 1.7 times that (logarithmic law)."""
    if len(curve) < 4:
        return None
    start = curve.steps[0] + (curve.steps[-1] - curve.steps[0]) * 2 / 3
    at = curve.at(float(start))
    reach = max(0, len(curve) // 40)
    early = float(np.median(curve.values[max(0, at - reach) : at + reach + 1]))
    late = float(np.median(curve.values[len(curve) - 1 - reach :]))
    return (early - late) / abs(early) if early else None


def _lr_share(lr: Series, start: int) -> float | None:
    """Median learning rate from `start` on as a share of its peak."""
    part = lr.between(start, np.inf)
    peak = float(np.max(lr.values)) if lr else 0.0
    return float(np.median(part.values)) / peak if part and peak > 0 else None
