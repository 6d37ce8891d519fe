"""A training curve that repeats itself with the epoch: sorted data, or the same order every time."""

from __future__ import annotations

import numpy as np

from umsicht.diagnose.curves import EPOCH, LR, TRAIN, Curves
from umsicht.diagnose.model import Event
from umsicht.diagnose.series import Floats, mad_sigma, noise_sigma, running_median
from umsicht.diagnose.thresholds import Thresholds


def find(curves: Curves, limits: Thresholds) -> Event | None:
    """A saw-tooth of the training loss, or None.

    The residual around a slow trend is averaged over a few points (white noise goes, the shape stays) and correlated with itself one and
    two epochs later; where the record holds no epochs, every lag is tried. Needs three periods. A learning rate with the same period
    explains it away.
    """
    train = curves.get(TRAIN).finite()
    if len(train) < 60 or not train.regular():
        return None
    skip = len(train) // 8
    steps, values = train.steps[skip:], train.values[skip:]
    known = _epoch_points(curves, train.cadence)
    lags = [known] if known else range(8, len(values) // (limits.saw_periods + 1))
    best: tuple[float, int, float, float] | None = None
    for lag in lags:
        if lag < 8 or lag * limits.saw_periods > len(values):
            continue
        shape = _shape(values, lag)
        at = _correlation(shape, lag), _correlation(shape, 2 * lag)
        half = _correlation(shape, lag // 2)
        score = min(at)
        if score > limits.saw_correlation and half < 0.5 * score and (best is None or score > best[0] * 1.05):
            best = (score, lag, at[0], float(np.ptp(_profile(shape, lag))))
    if best is None:
        return None
    noise = noise_sigma(values, 1e-6)
    amplitude = best[3]
    if amplitude < limits.saw_amplitude * noise or _lr_repeats(curves, best[1]):
        return None
    numbers = {
        "period_steps": float(best[1] * train.cadence),
        "amplitude": amplitude,
        "correlation": best[2],
        "noise": noise,
    }
    return Event("saw-tooth", train.name, int(steps[0]), int(steps[-1]), False, "", numbers)


def _epoch_points(curves: Curves, cadence: int) -> int | None:
    """Logged points in one epoch, from the epoch counter of the record."""
    epoch = curves.get(EPOCH).finite()
    if len(epoch) < 3 or epoch.values[-1] <= epoch.values[0]:
        return None
    steps = (epoch.steps[-1] - epoch.steps[0]) / (epoch.values[-1] - epoch.values[0])
    points = round(float(steps) / max(cadence, 1))
    return points if points >= 8 else None


def _shape(values: Floats, lag: int) -> Floats:
    trend = running_median(values, 2 * lag + 1)
    residual = values - trend
    residual = np.clip(residual, *(np.array([-1, 1]) * 6 * mad_sigma(residual, 1e-9)))
    width = max(1, lag // 8)
    smooth: Floats = np.convolve(residual, np.ones(width) / width, mode="valid")
    return smooth


def _correlation(shape: Floats, lag: int) -> float:
    if lag <= 0 or lag >= len(shape) - 8:
        return 0.0
    a, b = shape[:-lag], shape[lag:]
    spread = float(np.std(a) * np.std(b))
    return float(np.mean((a - a.mean()) * (b - b.mean())) / spread) if spread > 0 else 0.0


def _profile(shape: Floats, lag: int) -> Floats:
    periods = len(shape) // lag
    mean: Floats = np.median(shape[: periods * lag].reshape(periods, lag), axis=0)
    return mean


def _lr_repeats(curves: Curves, lag: int) -> bool:
    lr = curves.get(LR).finite()
    if len(lr) < 3 * lag:
        return False
    change = np.diff(lr.values)
    return bool(np.std(change) > 0 and _correlation(change, lag) > 0.5)
