"""A training curve that repeats itself with the epoch: sorted data, or the same order every time."""

from __future__ import annotations

import numpy as np

from umsicht.diagnose.curves import EPOCH, LR, TRAIN, Curves
from umsicht.diagnose.model import Event
from umsicht.diagnose.series import Floats, mad_sigma, noise_sigma
from umsicht.diagnose.thresholds import Thresholds

MOST_POINTS = 8_192


def find(curves: Curves, limits: Thresholds) -> Event | None:
    """A saw-tooth of the training loss, or None.

    The residual around a slow trend is correlated with itself one and two epochs later; where the record holds no epochs, every period is
    tried. Needs three periods (two where the epoch is known), and a shape inside the period that stands out of the noise: a repeat of the noise itself (the same batches in
    the same order) counts as well. A learning rate with the same period explains it away.
    """
    train = curves.get(TRAIN).finite()
    if len(train) < 60 or not train.regular():
        return None
    skip = len(train) // 8
    values = train.values[skip:]
    block = max(1, -(-len(values) // MOST_POINTS))
    thin = _blocks(values, block)
    known = _epoch_points(curves, train.cadence)
    found = _period(thin, known / block if known else None, limits)
    if found is None:
        return None
    lag, correlation, amplitude = found
    noise = noise_sigma(thin, 1e-6)
    if amplitude < limits.saw_amplitude * noise or _lr_repeats(curves, lag * block):
        return None
    numbers = {
        "period_steps": float(lag * block * train.cadence),
        "amplitude": amplitude,
        "correlation": correlation,
        "noise": noise,
    }
    return Event("saw-tooth", train.name, int(train.steps[skip]), int(train.steps[-1]), False, "", numbers)


def _blocks(values: Floats, block: int) -> Floats:
    usable = len(values) // block * block
    mean: Floats = np.median(values[:usable].reshape(-1, block), axis=1)
    return mean


def _epoch_points(curves: Curves, cadence: int) -> float | None:
    """Logged points in one epoch, from the epoch counter of the record."""
    epoch = curves.get(EPOCH).finite()
    if len(epoch) < 3 or epoch.values[-1] <= epoch.values[0]:
        return None
    steps = float((epoch.steps[-1] - epoch.steps[0]) / (epoch.values[-1] - epoch.values[0]))
    points = steps / max(cadence, 1)
    return points if points >= 8 else None


def _period(values: Floats, known: float | None, limits: Thresholds) -> tuple[int, float, float] | None:
    """(period in points, correlation at it, amplitude) of the strongest repeat, or None."""
    if known is not None:
        lags, least = _known_lags(known, len(values) // 2), limits.saw_correlation_known
    else:
        lags, least = _candidates(values, len(values) // limits.saw_periods), limits.saw_correlation
    best: tuple[int, float, float] | None = None
    for lag in dict.fromkeys(lags):
        shape = _shape(values, lag)
        once, twice, half = (_correlation(shape, step) for step in (lag, 2 * lag, lag // 2))
        # Where the period is known one repeat decides; a searched one must come back twice.
        score = once if known is not None else min(once, twice)
        if score <= least or half >= 0.5 * score:
            continue
        if _fisher_z(score, len(shape) / lag - 1) < limits.saw_z:
            continue
        if best is None or score > best[1]:
            best = (lag, score, float(np.ptp(_profile(shape, lag))))
    return best


def _known_lags(epoch: float, longest: int) -> list[int]:
    """Whole points nearest to an epoch, and to a half and a third of it: sorted data of several files repeat inside the epoch too."""
    return [
        lag
        for parts in (1, 2, 3)
        for lag in (int(epoch / parts), round(epoch / parts), int(epoch / parts) + 1)
        if 8 <= lag <= longest
    ]


def _candidates(values: Floats, longest: int) -> list[int]:
    """Lags at which the autocorrelation of the residual has its five highest peaks (Wiener-Khinchin: by one Fourier transform)."""
    residual = _shape(values, max(16, longest // 2))
    n = len(residual)
    if n < 32:
        return []
    power = np.abs(np.fft.rfft(residual - residual.mean(), 2 * n)) ** 2
    raw = np.fft.irfft(power)[:n]
    auto = raw / np.maximum(raw[0], 1e-12) * n / np.arange(n, 0, -1)
    inner = auto[1:-1]
    peaks = np.flatnonzero((inner > auto[:-2]) & (inner >= auto[2:])) + 1
    peaks = peaks[(peaks >= 8) & (peaks <= min(longest, n - 1))]
    strongest = peaks[np.argsort(-auto[peaks])][:5]
    return [int(peak) for peak in strongest]


def _shape(values: Floats, lag: int) -> Floats:
    """Residual around a moving mean of one period, outliers clipped, smoothed over an eighth of it."""
    trend = _moving_mean(values, lag)
    offset = (len(values) - len(trend)) // 2
    residual = values[offset : offset + len(trend)] - trend
    limit = 6 * mad_sigma(residual, 1e-9)
    return _moving_mean(np.clip(residual, -limit, limit), max(1, lag // 8))


def _moving_mean(values: Floats, width: int) -> Floats:
    width = min(width, len(values))
    total = np.concatenate([[0.0], np.cumsum(values)])
    mean: Floats = (total[width:] - total[:-width]) / width
    return mean


def _correlation(shape: Floats, lag: int) -> float:
    if lag <= 0 or lag >= len(shape) - 8:
        return 0.0
    a, b = shape[:-lag], shape[lag:]
    spread = float(np.std(a) * np.std(b))
    return float(np.mean((a - a.mean()) * (b - b.mean())) / spread) if spread > 0 else 0.0


def _fisher_z(correlation: float, periods: float) -> float:
    """Correlation in standard errors: atanh(r) sqrt(n - 3), n = 8 a period, since the shape is smoothed over an eighth of one."""
    return float(np.arctanh(min(correlation, 0.999)) * np.sqrt(max(8 * periods - 3, 1.0)))


def _profile(shape: Floats, lag: int) -> Floats:
    periods = max(1, len(shape) // lag)
    mean: Floats = np.median(shape[: periods * lag].reshape(periods, -1), axis=0)
    return mean


def _lr_repeats(curves: Curves, lag: int) -> bool:
    lr = curves.get(LR).finite()
    if len(lr) < 3 * lag:
        return False
    change = np.diff(lr.values)
    return bool(np.std(change) > 0 and _correlation(change, lag) > 0.5)
