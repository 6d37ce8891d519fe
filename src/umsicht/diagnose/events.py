"""Things that happen at one place of a curve: spikes, level shifts, non-finite values, learning-rate bumps, frozen weights.

Rules after the comparison in the fault catalogue of the project: alarm on the loss (robust spike and level shift), use gradient norm
as evidence only; never let an outlier move the statistics it is judged by (the window lies before the point).
"""

from __future__ import annotations

import numpy as np

from umsicht.diagnose.curves import LR, TRAIN, VAL, Curves
from umsicht.diagnose.model import Event
from umsicht.diagnose.series import (
    MAD_TO_SIGMA,
    Floats,
    Series,
    mad_sigma,
    noise_sigma,
    running_median,
    trailing_median,
)
from umsicht.diagnose.thresholds import Thresholds


def find_events(curves: Curves, limits: Thresholds) -> tuple[Event, ...]:
    """Every event of the record in order of step; those that another event explains say so."""
    train = curves.get(TRAIN)
    bumps = lr_bumps(curves.get(LR), limits)
    restarts = [Event("restart", "step", step) for step in curves.restarts]
    found = [*bumps, *restarts, *nonfinite(train), *nonfinite(curves.get(VAL)), *frozen(curves, limits)]
    clean = train.finite()
    spiky = spikes(clean, limits)
    found += spiky + level_shifts(clean, limits)
    return tuple(
        sorted((_explain(event, bumps, restarts, clean) for event in found), key=lambda event: event.step)
    )


def _explain(event: Event, bumps: list[Event], restarts: list[Event], train: Series) -> Event:
    """A jump inside a learning-rate bump, or within a few points of a restart, is first of all a matter of that."""
    if event.kind not in ("spike", "level-shift-up", "level-shift-down"):
        return event
    reach = 3 * max(train.cadence, 1)
    for bump in bumps:
        length = (bump.until or bump.step) - bump.step
        if (
            bump.step - reach
            <= event.step
            <= (bump.until or bump.step) + max(length, 40 * max(train.cadence, 1))
        ):
            return _with(event, "lr-bump")
    if any(abs(event.step - restart.step) <= reach for restart in restarts):
        return _with(event, "restart")
    return event


def _with(event: Event, explained_by: str) -> Event:
    return Event(
        event.kind, event.metric, event.step, event.until, event.recovered, explained_by, event.numbers
    )


def nonfinite(series: Series) -> list[Event]:
    """Runs of NaN or infinite values; `recovered` where a finite value follows."""
    bad = ~np.isfinite(series.values)
    if not bad.any():
        return []
    edges = np.flatnonzero(np.diff(np.concatenate([[False], bad, [False]]).astype(np.int8)))
    events = []
    for start, stop in zip(edges[::2], edges[1::2], strict=True):
        recovered = bool(stop < len(series))
        numbers = {"points": float(stop - start)}
        if start > 0:
            numbers["last_finite"] = float(series.values[start - 1])
        events.append(
            Event(
                "nonfinite",
                series.name,
                int(series.steps[start]),
                int(series.steps[stop - 1]),
                recovered,
                "",
                numbers,
            )
        )
    return events


def spikes(series: Series, limits: Thresholds) -> list[Event]:
    """Points above median + 6 robust sigma of the 64 points before; neighbours within 3 points are one spike.

    `recovered`: back within 3 sigma of the level before, in at most 20 points: True; not within 50: False; between, or at the end: None.
    """
    values = series.values
    middle, sigma = trailing_median(values, limits.spike_window)
    sigma = np.maximum(sigma, limits.sigma_floor)
    height = values - middle
    with np.errstate(invalid="ignore"):
        high = np.flatnonzero((height > limits.spike_sigma * sigma) & (height > limits.spike_floor))
    if len(high) == 0:
        return []
    events = []
    for group in np.split(high, np.flatnonzero(np.diff(high) > 3) + 1):
        first = int(group[0])
        peak = int(group[int(np.argmax(values[group]))])
        level = float(middle[first] + 3 * sigma[first])
        after = values[peak + 1 : peak + 1 + limits.spike_lost_points + 5]
        back = _first_back(after, level)
        recovered: bool | None = None
        if back is not None and back < limits.spike_recovered_points:
            recovered = True
        elif back is None and len(after) >= limits.spike_lost_points:
            recovered = False
        until = int(series.steps[min(peak + 1 + (back if back is not None else len(after)), len(series) - 1)])
        numbers = {
            "before": float(middle[first]),
            "peak": float(values[peak]),
            "peak_step": float(series.steps[peak]),
            "height": float(values[peak] - middle[first]),
            "sigmas": float(height[peak] / sigma[peak]) if np.isfinite(sigma[peak]) else 0.0,
        }
        events.append(Event("spike", series.name, int(series.steps[first]), until, recovered, "", numbers))
    return events


def _first_back(after: Floats, level: float, width: int = 5) -> int | None:
    """Offset from which the median of the next `width` points is at or below `level`."""
    for offset in range(max(0, len(after) - width + 1)):
        if float(np.median(after[offset : offset + width])) <= level:
            return offset
    return None


def level_shifts(series: Series, limits: Thresholds) -> list[Event]:
    """Jumps of the level between two neighbouring points that stay.

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
    series: Series, values: Floats, index: int, width: int, jump: float, strength: float
) -> Event | None:
    near = max(3, width // 3)
    before = float(np.median(values[max(0, index - near) : index]))
    after = float(np.median(values[index : index + near]))
    if (after - before) * jump <= 0 or abs(after - before) < 0.5 * abs(jump):
        return None  # the lines disagree with the points themselves: a bend, not a step
    later = values[index + width : index + 3 * width]
    recovered: bool | None = None
    if len(later) >= width // 2:
        recovered = bool((float(np.median(later)) - before) * jump < 0.5 * jump * jump)
    if jump < 0:
        recovered = None
    numbers = {"before": before, "after": after, "jump": jump, "sigmas": strength}
    kind = "level-shift-up" if jump > 0 else "level-shift-down"
    return Event(kind, series.name, int(series.steps[index]), None, recovered, "", numbers)


def lr_bumps(series: Series, limits: Thresholds) -> list[Event]:
    """Places where the learning rate climbs again by 20 % or more after its first peak, and where it is back."""
    clean = series.finite()
    values, steps = clean.values, clean.steps
    if len(values) < 5:
        return []
    rising = np.flatnonzero(np.diff(values) > 1e-12 * np.max(np.abs(values)))
    if len(rising) == 0:
        return []
    # The warm-up: everything up to the end of the first unbroken climb (gaps of one point allowed).
    breaks = np.flatnonzero(np.diff(rising) > 2)
    start = int(rising[breaks[0]] + 1) if len(breaks) else int(rising[-1] + 1)
    if rising[0] > 1 and values[0] > 0:
        start = 0
    events: list[Event] = []
    i = start
    while i + 1 < len(values):
        if values[i + 1] <= values[i] * (1 + 1e-9):
            i += 1
            continue
        base = float(values[i])
        top = i + 1
        while top + 1 < len(values) and values[top + 1] >= values[top]:
            top += 1
        peak = float(values[top])
        if base <= 0 or peak < limits.lr_bump_factor * base:
            i = top
            continue
        down = top
        while down + 1 < len(values) and values[down] > base * 1.05:
            down += 1
        numbers = {"before": base, "peak": peak, "factor": peak / base}
        back = bool(values[down] <= base * 1.05)
        events.append(Event("lr-bump", series.name, int(steps[i + 1]), int(steps[down]), back, "", numbers))
        i = max(down, top)
    return events


def frozen(curves: Curves, limits: Thresholds) -> list[Event]:
    """Three or more validations in a row with one and the same value: on fixed tokens that means the weights did not move."""
    val = curves.val.finite()
    if len(val) < 3:
        return []
    same = np.diff(val.values) == 0
    length = 0
    for flag in same[::-1]:
        if not flag:
            break
        length += 1
    if length < 2:
        return []
    start = len(val) - 1 - length
    span = max(1, int(val.steps[-1] - val.steps[0]))
    if (val.steps[-1] - val.steps[start]) / span < limits.frozen_share:
        return []
    numbers = {
        "value": float(val.values[-1]),
        "validations": float(length + 1),
        "share": float(val.steps[-1] - val.steps[start]) / span,
    }
    return [Event("frozen", val.name, int(val.steps[start]), int(val.steps[-1]), False, "", numbers)]


def settled_noise(series: Series) -> float:
    """Robust noise of a training curve in its second half."""
    return noise_sigma(series.values[len(series) // 2 :], 1e-6)
