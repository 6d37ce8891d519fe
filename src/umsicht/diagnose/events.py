"""Things that happen at one place of a curve: spikes, level shifts, non-finite values, learning-rate bumps, frozen weights.

Rules after the comparison in the fault catalogue of the project: alarm on the loss (robust spike and level shift), use gradient norm
as evidence only; never let an outlier move the statistics it is judged by (the window lies before the point).
"""

from __future__ import annotations

import numpy as np

from umsicht.diagnose.curves import EPOCH, LR, TRAIN, TRAIN_EVAL, VAL, Curves
from umsicht.diagnose.level_shifts import level_shifts
from umsicht.diagnose.model import Event
from umsicht.diagnose.series import Floats, Series, trailing_median
from umsicht.diagnose.thresholds import Thresholds


def find_events(curves: Curves, limits: Thresholds) -> tuple[Event, ...]:
    """Every event of the record in order of step; those that another event explains say so."""
    train = curves.get(TRAIN)
    bumps = lr_bumps(curves.get(LR), limits)
    restarts = [Event("restart", "step", step) for step in curves.restarts]
    found = [*bumps, *restarts, *nonfinite(train), *nonfinite(curves.get(VAL)), *frozen(curves, limits)]
    clean = train.finite()
    edges = epoch_edges(curves)
    spiky = spikes(clean, limits)
    found += spiky + level_shifts(clean, _reference(curves), limits)
    return tuple(
        sorted(
            (_explain(event, bumps, restarts, edges, curves) for event in found), key=lambda event: event.step
        )
    )


def _reference(curves: Curves) -> Series | None:
    """What training should run alongside: the fixed training sample where it was scored, else validation."""
    for name in (TRAIN_EVAL, VAL):
        series = curves.get(name).finite()
        if len(series) >= 4:
            return series
    return None


def epoch_edges(curves: Curves) -> list[int]:
    """Steps at which a new pass over the data begins, from the epoch counter of the record."""
    epoch = curves.get(EPOCH).finite()
    crossed = np.flatnonzero(np.diff(np.floor(epoch.values + 1e-9)) > 0) + 1
    return [int(step) for step in epoch.steps[crossed]]


def _explain(
    event: Event, bumps: list[Event], restarts: list[Event], edges: list[int], curves: Curves
) -> Event:
    """A jump inside a learning-rate bump, or close to a restart, a new epoch or a drop of the rate, is first of all a matter of that."""
    train = curves.get(TRAIN)
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
    if event.kind != "spike" and any(abs(event.step - edge) <= 10 * max(train.cadence, 1) for edge in edges):
        return _with(event, "epoch")
    if event.kind == "level-shift-down" and _rate_drops(curves.get(LR).finite(), event.step, train):
        return _with(event, "lr-drop")
    return event


def _rate_drops(lr: Series, step: int, train: Series) -> bool:
    """Whether the learning rate falls by a third or more within ten logged points to either side."""
    reach = 10 * max(train.cadence, 1)
    before, after = lr.between(step - 3 * reach, step - reach), lr.between(step + reach, step + 3 * reach)
    return bool(before) and bool(after) and float(after.values[0]) < 0.67 * float(before.values[-1])


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
