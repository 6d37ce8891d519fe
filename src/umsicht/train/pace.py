"""How fast a run goes, on a monotonic clock: a jump of the system clock gives no false rate."""

from __future__ import annotations

import time


class Pace:
    """Steps of one segment. `rate` is tokens per second of computing, smoothed."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._steps = 0
        self.rate = 0.0

    def begin(self) -> None:
        """A step begins."""
        self._start = time.monotonic()

    def computed(self, tokens: int) -> float:
        """The step's computing is over, `tokens` were read; its tokens per second."""
        rate = tokens / max(1e-9, time.monotonic() - self._start)
        self.rate = rate if self._steps == 0 else 0.9 * self.rate + 0.1 * rate
        return rate

    def end(self) -> float:
        """Hooks are over too; seconds of the whole step."""
        self._steps += 1
        return time.monotonic() - self._start
