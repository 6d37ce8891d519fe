"""A batch that grows: at the start of a run a fraction of the global batch is enough, because the noise of its gradient is small beside the gradient.

How large a batch still pays grows as the loss falls (McCandlish et al. 2018, arXiv 1812.06162), and runs that begin with small batches and double
them lose nothing (Smith et al. 2018, arXiv 1711.00489; DeepSeek-V3's report, 2024, § 4.2). Here as arithmetic of the step, so that a cursor is all that
has to be saved: over the first `share` of the steps, in stages of equal numbers of steps, 1/first of the batch, then twice that, and so on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Growth:
    """The first of `total_steps` steps read 1/`first` of a batch (a power of two); from `share` of them on each reads a whole one."""

    first: int
    share: float
    total_steps: int

    def __post_init__(self) -> None:
        if self.first < 2 or self.first & (self.first - 1):
            raise ValueError(f"a batch that begins as 1/{self.first} cannot become whole by doubling")

    @property
    def starts(self) -> tuple[int, ...]:
        """First step of each stage; the last stage is that of whole batches."""
        stages = self.first.bit_length() - 1
        return tuple(round(self.share * self.total_steps * number / stages) for number in range(stages + 1))

    def parts_before(self, step: int) -> int:
        """How many parts, each 1/`first` of a batch, the steps before `step` have read."""
        starts = self.starts
        ends = (*starts[1:], max(step, starts[-1]))
        return sum(
            max(0, min(step, end) - start) << number
            for number, (start, end) in enumerate(zip(starts, ends, strict=True))
        )

    def steps_for(self, batches: float) -> int:
        """Steps of a run, growth included, that reads as much as `batches` whole batches, to the nearest step; at least one."""
        wanted = batches * self.first
        low, high = 1, 1
        while self._parts_of(high) < wanted:
            low, high = high, 2 * high
        while low + 1 < high:
            middle = (low + high) // 2
            low, high = (middle, high) if self._parts_of(middle) < wanted else (low, middle)
        return min((low, high), key=lambda steps: abs(self._parts_of(steps) - wanted))

    def _parts_of(self, steps: int) -> int:
        return Growth(self.first, self.share, steps).parts_before(steps)

    def state(self) -> dict[str, Any]:
        """What decides which step reads what."""
        return {"first": self.first, "share": self.share, "total_steps": self.total_steps}
