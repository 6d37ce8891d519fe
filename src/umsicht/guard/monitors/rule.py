"""The rule for spikes and level shifts of a loss, apart from any loop.

A spike is a loss above median + 6 · 1.4826 · MAD of the last 64 steps (1.4826 makes the MAD a standard deviation for normal noise). A shift is
the median of the last 21 losses more than 6 standard errors away from the trend of the 100 before, up or down. Statistics are never fed by
what they flag. A change of the learning rate's course starts both windows anew.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace
from typing import Any, Literal

WINDOW = 64
LEAST = 24
SIGMAS = 6.0
FLOOR = 0.01
RECENT, BEFORE = 21, 100
LEAST_SHIFT = 0.05
LASTING = 50


@dataclass(frozen=True)
class Alarm:
    """What was seen, from step `onset` on. `expected` and `scale` are what the value was held against, in nats."""

    kind: Literal["spike", "shift-up", "shift-down", "does-not-recover"]
    step: int
    value: float
    expected: float
    scale: float
    onset: int = 0

    @property
    def sigmas(self) -> float:
        """How many standard errors off."""
        return (self.value - self.expected) / self.scale if self.scale else math.inf


def median(values: list[float]) -> float:
    """The middle value."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else 0.5 * (ordered[middle - 1] + ordered[middle])


def spread(values: list[float], centre: float) -> float:
    """Standard deviation from the median absolute deviation, never below the floor."""
    return max(1.4826 * median([abs(value - centre) for value in values]), FLOOR)


class SpikeRule:
    """Feed it one loss a step; it answers with an alarm or None. Its state is a short list of numbers."""

    def __init__(self) -> None:
        self.losses: deque[float] = deque(maxlen=WINDOW)
        self.trend: deque[tuple[int, float]] = deque(maxlen=RECENT + BEFORE)
        self.rates: deque[float] = deque(maxlen=3)
        self.in_spike = 0
        self.last_shift = -(10**9)

    def see(self, step: int, loss: float, rate: float | None = None) -> Alarm | None:
        """Judge one step. A loss that is not finite is not this rule's business."""
        if not math.isfinite(loss):
            return None
        if rate is not None:
            self._rate(rate)
        found = self._spike(step, loss)
        if found is None:
            self.losses.append(loss)
            self.trend.append((step, loss))
            found = self._shift(step)
        elif self.in_spike >= LASTING:
            # A level that stays is no spike: say so once and let the windows learn it, or every later step would be one.
            found = replace(found, kind="does-not-recover")
            self.reset()
        return found

    def reset(self) -> None:
        """Forget the windows: the course of the run was changed on purpose."""
        self.losses.clear()
        self.trend.clear()
        self.in_spike = 0

    def _rate(self, rate: float) -> None:
        self.rates.append(rate)
        if len(self.rates) < 3:
            return
        first, second, third = self.rates
        top = max(abs(first), abs(second), abs(third), 1e-30)
        bend = abs((third - second) - (second - first)) / top
        if bend > 2e-3:
            self.trend.clear()
        if abs(third - second) / top > 0.3 and second > 0 and third > 2 * second:
            self.losses.clear()

    def _spike(self, step: int, loss: float) -> Alarm | None:
        if len(self.losses) < LEAST:
            return None
        values = list(self.losses)
        centre = median(values)
        # While the loss falls fast, the trend inside the window widens it; half of that is not noise.
        scale = spread(values, centre)
        if loss > centre + SIGMAS * scale:
            self.in_spike += 1
            return Alarm("spike", step, loss, centre, scale, step - self.in_spike + 1)
        self.in_spike = 0
        return None

    def _shift(self, step: int) -> Alarm | None:
        if len(self.trend) < RECENT + BEFORE or step % 3:
            return None
        points = list(self.trend)
        before, recent = points[:BEFORE], points[BEFORE:]
        now = median([loss for _, loss in recent])
        middle = recent[RECENT // 2][0]
        line, noise, error = fit(before, middle)
        curve = self._bent(before, middle)
        low, high = min(line, curve), max(line, curve)
        scale = math.hypot(error, 1.2533 * noise / math.sqrt(RECENT))
        distance = now - high if now > high else now - low if now < low else 0.0
        if abs(distance) > max(SIGMAS * scale, LEAST_SHIFT) and step - self.last_shift > RECENT + BEFORE:
            self.last_shift = step
            self.trend.clear()
            return Alarm(
                "shift-up" if distance > 0 else "shift-down",
                step,
                now,
                high if distance > 0 else low,
                scale,
                recent[0][0],
            )
        return None

    @staticmethod
    def _bent(points: list[tuple[int, float]], at: float) -> float:
        """Extrapolation by the last half alone: a falling loss flattens, and a straight line would call that a shift."""
        return fit(points[len(points) // 2 :], at)[0]

    def state_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "losses": list(self.losses),
            "trend": [list(point) for point in self.trend],
            "rates": list(self.rates),
            "in_spike": self.in_spike,
            "last_shift": self.last_shift,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self.losses = deque(state["losses"], maxlen=WINDOW)
        self.trend = deque(
            ((int(step), float(loss)) for step, loss in state["trend"]), maxlen=RECENT + BEFORE
        )
        self.rates = deque(state["rates"], maxlen=3)
        self.in_spike, self.last_shift = int(state["in_spike"]), int(state["last_shift"])


def fit(points: list[tuple[int, float]], at: float) -> tuple[float, float, float]:
    """Least-squares line: its value at `at`, the robust spread around it, and the standard error of that value."""
    n = len(points)
    mean_x = sum(x for x, _ in points) / n
    mean_y = sum(y for _, y in points) / n
    sxx = sum((x - mean_x) ** 2 for x, _ in points) or 1.0
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / sxx
    residuals = [y - mean_y - slope * (x - mean_x) for x, y in points]
    noise = spread(residuals, 0.0)
    return mean_y + slope * (at - mean_x), noise, noise * math.sqrt(1 / n + (at - mean_x) ** 2 / sxx)
