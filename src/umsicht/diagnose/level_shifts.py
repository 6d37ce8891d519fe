"""Level shifts: jumps of the training loss that stay. Other data, a broken loader, padding that counts, a loss that changed its meaning."""

from __future__ import annotations

import numpy as np

from umsicht.diagnose.model import Event
from umsicht.diagnose.series import MAD_TO_SIGMA, Floats, Ints, Series, mad_sigma, running_median
from umsicht.diagnose.thresholds import Thresholds


def level_shifts(series: Series, reference: Series | None, limits: Thresholds) -> list[Event]:
    """Jumps of the training loss between two neighbouring points that stay: seen in the curve itself, or against what it runs alongside."""
    found = alone(series, limits)
    if reference is not None:
        reach = 2 * limits.shift_width * max(series.cadence, 1)
        for event in against(series, reference, limits):
            if not any(abs(event.step - other.step) <= reach for other in found):
                found.append(event)
    return sorted(found, key=lambda event: event.step)


def against(series: Series, reference: Series, limits: Thresholds) -> list[Event]:
    """Jumps of the distance between the training loss and a loss on fixed tokens, which holds neither trend nor bend of the learning.

    The fixed loss is measured seldom and drawn straight between; how far a chord can lie from the curve (an eighth of the second
    difference) counts as error, beside the standard error of two means and the robust spread of the same quantity elsewhere. A drift gives
    half the difference at half the width and is left out.
    """
    inside = series.between(float(reference.steps[1]), float(reference.steps[-1]))
    n = len(inside)
    if n < 4 * limits.shift_min_width:
        return []
    distance = inside.values - np.interp(inside.steps, reference.steps, reference.values)
    distance = _without_outliers(distance)
    chord = _chord_error(inside.steps, reference)
    strength, jump, widths = np.zeros(n), np.zeros(n), np.zeros(n, dtype=np.int64)
    for width in dict.fromkeys(min(int(limits.shift_width * factor), n // 4) for factor in (0.5, 1, 2, 4)):
        if width < limits.shift_min_width:
            break
        one, error = _welch_step(distance, width)
        half, _ = _welch_step(distance, width // 2)
        with np.errstate(invalid="ignore", divide="ignore"):
            error = np.maximum(np.maximum(error, chord), _spread_elsewhere(one, error, width))
            here = np.where(half / one >= limits.shift_sudden, np.abs(one) / error, 0.0)
        here = np.where(np.isfinite(here), here, 0.0)
        better = here > strength
        strength, jump = np.where(better, here, strength), np.where(better, one, jump)
        widths = np.where(better, width, widths)
    level = np.abs(running_median(inside.values, 2 * (limits.shift_min_width // 2) + 1))
    enough = (strength > limits.shift_sigma) & (
        np.abs(jump) > np.maximum(2 * limits.shift_floor, 2 * limits.shift_share * level)
    )
    events: list[Event] = []
    taken = np.zeros(n, dtype=bool)
    for index in np.argsort(-strength * enough):
        if not enough[index]:
            break
        width = int(widths[index])
        if taken[max(0, index - width) : index + width].any():
            continue
        taken[index] = True
        event = _shift_event(
            inside, inside.values, int(index), width, float(jump[index]), float(strength[index]), distance
        )
        if event is not None:
            events.append(event)
    return events


def _welch_step(values: Floats, width: int) -> tuple[Floats, Floats]:
    """Difference of the means of `width` points after and before each index and its standard error (Welch); NaN elsewhere."""
    n = len(values)
    centred = values - values.mean()
    first, second = (np.concatenate([[0.0], np.cumsum(centred**power)]) for power in (1, 2))
    mean = (first[width:] - first[:-width]) / width
    square = (second[width:] - second[:-width]) / width
    variance = np.maximum(square - mean**2, 0.0) * width / (width - 1)
    at = np.arange(width, n - width + 1)
    jump, error = np.full(n, np.nan), np.full(n, np.nan)
    jump[at] = mean[at] - mean[at - width]
    error[at] = np.sqrt((variance[at] + variance[at - width]) / width)
    return jump, error


def _spread_elsewhere(jump: Floats, error: Floats, width: int) -> float:
    """Robust spread of the jumps away from the strongest: what wander and autocorrelation make of nothing."""
    strength = np.abs(jump) / np.maximum(error, 1e-12)
    if not np.isfinite(strength).any():
        return 0.0
    candidate = int(np.nanargmax(strength))
    elsewhere = np.isfinite(jump)
    elsewhere[max(0, candidate - width) : candidate + width + 1] = False
    return mad_sigma(jump[elsewhere]) if np.count_nonzero(elsewhere) >= width else 0.0


def _chord_error(steps: Ints, reference: Series) -> Floats:
    """How far the reference can lie from the straight line between two of its measurements, at each step."""
    second = np.abs(np.diff(np.diff(reference.values) / np.diff(reference.steps)))
    gaps = np.minimum(np.diff(reference.steps)[:-1], np.diff(reference.steps)[1:])
    bend = second * gaps / 8
    right = np.clip(np.searchsorted(reference.steps, steps), 1, len(reference) - 1)
    padded = np.concatenate([[bend[0]], bend, [bend[-1]]]) if len(bend) else np.zeros(len(reference))
    worst: Floats = np.maximum(padded[right - 1], padded[right])
    return worst


def alone(series: Series, limits: Thresholds) -> list[Event]:
    """Jumps seen in the training curve itself.

    Downwards: a line is fitted to the points before and one to the points after; the jump is their difference at that place (a
    regression discontinuity), so that neither the fall of a healthy curve nor a bend in it counts. Upwards the plain difference of the two
    means serves: on a falling curve it errs to the safe side, and it sees half as large a jump. Either must exceed 5 times the larger of
    its standard error and the robust spread of the same quantity over the whole record, which takes autocorrelation and wander into account.
    """
    n = len(series)
    values = _without_outliers(series.values)
    strength = np.zeros(n)
    jump = np.zeros(n)
    for width in dict.fromkeys(min(int(limits.shift_width * factor), n // 5) for factor in (0.5, 1, 2, 4)):
        if width < limits.shift_min_width:
            return []
        tests = [_mean_step(values, width)]
        if width >= min(limits.shift_width, n // 5):
            tests.append(_line_step(values, width))
        for one, error in tests:
            usable = np.isfinite(one)
            if not usable.any():
                continue
            with np.errstate(invalid="ignore", divide="ignore"):
                here = np.where(usable, np.abs(one) / np.maximum(error, 1e-12), 0.0)
            better = here > strength
            strength, jump = np.where(better, here, strength), np.where(better, one, jump)
    # The steep beginning is no step down.
    strength[: n // 10] = np.where(jump[: n // 10] < 0, 0.0, strength[: n // 10])
    level = running_median(values, 2 * (limits.shift_min_width // 2) + 1)
    enough = (
        (strength > limits.shift_sigma)
        & (np.abs(jump) > limits.shift_floor)
        & (np.abs(jump) > limits.shift_share * np.abs(level))
    )
    events: list[Event] = []
    taken = np.zeros(n, dtype=bool)
    reach = min(limits.shift_width, n // 5)
    for index in np.argsort(-strength * enough):
        if not enough[index]:
            break
        if taken[max(0, index - reach) : index + reach].any():
            continue
        taken[index] = True
        event = _shift_event(series, values, int(index), reach, float(jump[index]), float(strength[index]))
        if event is not None:
            events.append(event)
    return sorted(events, key=lambda event: event.step)


def _without_outliers(values: Floats) -> Floats:
    """Single points far off a centred median of seven are put back on it; runs of more than three stay."""
    smooth = running_median(values, 7)
    off = np.abs(values - smooth)
    return np.where(off > 6 * mad_sigma(values - smooth, 1e-9), smooth, values)


def _local_sigma(values: Floats, width: int) -> Floats:
    """Noise of one point around each index, from the larger of the two halves' first differences; length n - 2 width + 1.

    Measured at every quarter of a window and held between, which is near enough for a scale and keeps long records fast.
    """
    stride = max(1, width // 4)
    difference = np.abs(np.diff(values))
    windows = np.lib.stride_tricks.sliding_window_view(difference, width - 1)[::stride]
    half = np.repeat(np.median(windows, axis=1), stride)
    length = len(values) - 2 * width + 1
    ahead = half[width : width + length]
    behind = half[:length]
    short = length - len(ahead)
    if short > 0:
        ahead = np.concatenate([ahead, np.full(short, half[-1])])
    local: Floats = MAD_TO_SIGMA / np.sqrt(2.0) * np.maximum(behind, ahead)
    return local


def _line_step(values: Floats, width: int) -> tuple[Floats, Floats]:
    """Falls: jump at each index between lines fitted to `width` points before and after, and its standard error; NaN elsewhere."""
    n = len(values)
    x = np.arange(width, dtype=np.float64) - (width - 1) / 2
    sxx = float((x**2).sum())
    windows = np.lib.stride_tricks.sliding_window_view(values, width)
    mean = windows.mean(axis=1)
    slope = windows @ x / sxx
    edge = width / 2  # from the centre of a window to the place between the two windows
    at = np.arange(width, n - width + 1)
    jump = np.full(n, np.nan)
    error = np.full(n, np.nan)
    jump[at] = (mean - slope * edge)[at] - (mean + slope * edge)[at - width]
    # Variance of an ordinary least-squares line at distance d from its centre: sigma^2 (1/n + d^2 / Sxx); two independent lines.
    error[at] = _local_sigma(values, width)[: len(at)] * np.sqrt(2.0 * (1.0 / width + edge**2 / sxx))
    return _one_way(jump, error, -1, width)


def _mean_step(values: Floats, width: int) -> tuple[Floats, Floats]:
    """Rises: difference of the means of `width` points after and before each index, and its standard error; NaN elsewhere."""
    n = len(values)
    mean = np.lib.stride_tricks.sliding_window_view(values, width).mean(axis=1)
    at = np.arange(width, n - width + 1)
    jump = np.full(n, np.nan)
    error = np.full(n, np.nan)
    jump[at] = mean[at] - mean[at - width]
    error[at] = _local_sigma(values, width)[: len(at)] * np.sqrt(2.0 / width)
    return _one_way(jump, error, 1, width)


def _one_way(jump: Floats, error: Floats, sign: int, width: int) -> tuple[Floats, Floats]:
    """Keep jumps of one sign; the error is at least the robust spread of the jumps of both signs elsewhere in the record."""
    usable = np.isfinite(jump)
    with np.errstate(invalid="ignore"):
        kept = np.where(jump * sign > 0, jump, np.nan)
    if not np.isfinite(kept).any():
        return kept, error
    candidate = int(np.nanargmax(np.abs(kept) / np.maximum(error, 1e-12)))
    elsewhere = usable.copy()
    elsewhere[max(0, candidate - width) : candidate + width + 1] = False
    elsewhere[: len(jump) // 7] = False  # the steep beginning says nothing about the wander of the rest
    spread = mad_sigma(jump[elsewhere]) if np.count_nonzero(elsewhere) >= width else 0.0
    return kept, np.maximum(error, spread)


def _shift_event(
    series: Series,
    values: Floats,
    index: int,
    width: int,
    jump: float,
    strength: float,
    level: Floats | None = None,
) -> Event | None:
    """The jump as an event; `level` is the curve on which it is asked whether it stayed (by default the values themselves)."""
    near = max(3, width // 3)
    before = float(np.median(values[max(0, index - near) : index]))
    after = float(np.median(values[index : index + near]))
    if (after - before) * jump <= 0 or abs(after - before) < 0.5 * abs(jump):
        return None  # the lines disagree with the points themselves: a bend, not a step
    level = values if level is None else level
    later = level[index + width : index + 3 * width]
    recovered: bool | None = None
    if len(later) >= width // 2:
        base = float(np.median(level[max(0, index - near) : index]))
        recovered = bool((float(np.median(later)) - base) * jump < 0.5 * jump * jump)
    if jump < 0:
        recovered = None
    numbers = {"before": before, "after": after, "jump": jump, "sigmas": strength}
    kind = "level-shift-up" if jump > 0 else "level-shift-down"
    return Event(kind, series.name, int(series.steps[index]), None, recovered, "", numbers)
