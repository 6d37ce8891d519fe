"""Axes: where a value goes, and which values deserve a tick."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Maps `[low, high]` to `[start, end]` (pixels), linearly or by logarithm."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def __call__(self, value: float) -> float:
        if self.is_log:
            if value <= 0:
                return math.nan
            share = (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, about: int = 5) -> list[float]:
        """Round values inside the range, about as many as asked for."""
        return (
            log_ticks(self.low, self.high, about) if self.is_log else linear_ticks(self.low, self.high, about)
        )


def fitted(low: float, high: float, start: float, end: float, *, is_log: bool = False) -> Scale:
    """A scale with a little air around the data; equal ends are spread so that a flat line has a place."""
    if is_log:
        ratio = (high / low) ** 0.04 if high > low else 1.2
        return Scale(low / ratio, high * ratio, start, end, True)
    air = (high - low) * 0.05 or abs(high) * 0.1 or 1.0
    return Scale(low - air, high + air, start, end)


def linear_ticks(low: float, high: float, about: int) -> list[float]:
    span = high - low
    if not span > 0 or not math.isfinite(span):
        return [low]
    raw = span / max(about, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = power * next(m for m in (1, 2, 2.5, 5, 10) if raw <= power * m * 1.0001)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(n * step, 12) for n in range(first, last + 1)]


def log_ticks(low: float, high: float, about: int) -> list[float]:
    """1–2–5 steps while they are few, powers of ten where the range is wide, linear steps where it is narrow."""
    decades = math.log10(high / low)
    if decades < 0.7:
        return [tick for tick in linear_ticks(low, high, about) if tick > 0]
    multiples = (1, 2, 5) if decades <= about / 2 else (1,)
    ticks = [
        m * 10.0**power
        for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        for m in multiples
    ]
    inside = [tick for tick in ticks if low <= tick <= high]
    stride = max(1, len(inside) // (about * 2))
    return inside[::stride]


def tick_digits(ticks: list[float]) -> int:
    """Decimals that tell neighbouring ticks apart."""
    gaps = [abs(b - a) for a, b in zip(ticks, ticks[1:], strict=False) if b != a]
    if not gaps:
        return 2
    return max(0, min(6, -math.floor(math.log10(min(gaps)) + 1e-9) + (1 if _half_step(min(gaps)) else 0)))


def _half_step(gap: float) -> bool:
    mantissa = gap / 10.0 ** math.floor(math.log10(gap))
    return math.isclose(mantissa, 2.5, abs_tol=1e-6)
