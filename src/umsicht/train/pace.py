"""How fast a run goes and when it will end, on a monotonic clock: a jump of the system clock cannot give a negative ETA."""

from __future__ import annotations

import time


class Pace:
    """Steps of one segment. `rate` is tokens per second of computing, smoothed; the ETA counts validation and checkpoints too."""

    def __init__(self, total_steps: int, tokens_per_step: int) -> None:
        self._total = total_steps
        self._tokens = tokens_per_step
        self._first = time.monotonic()
        self._start = self._first
        self._steps = 0
        self.rate = 0.0

    def begin(self) -> None:
        """A step begins."""
        self._start = time.monotonic()

    def computed(self) -> float:
        """The step's computing is over; its tokens per second."""
        rate = self._tokens / max(1e-9, time.monotonic() - self._start)
        self.rate = rate if self._steps == 0 else 0.9 * self.rate + 0.1 * rate
        return rate

    def end(self) -> float:
        """Hooks are over too; seconds of the whole step."""
        self._steps += 1
        return time.monotonic() - self._start

    def eta(self, step: int) -> str:
        """Time left as h:mm:ss or m:ss."""
        elapsed = time.monotonic() - self._first
        left = int(elapsed / max(1, self._steps) * max(0, self._total - step))
        hours, rest = divmod(left, 3600)
        minutes, seconds = divmod(rest, 60)
        return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
