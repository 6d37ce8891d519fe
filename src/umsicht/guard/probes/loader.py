"""The batches that the trainer would be fed, read once on its own path and kept for every probe that looks at them."""

from __future__ import annotations

from typing import Any

from umsicht.guard.subject import Subject
from umsicht.tokens.batch import Batch
from umsicht.train.shares import joined

MOST_ROWS = 4000
MOST_TOKENS = 4_000_000


class Fed:
    """What each step is fed: its micro-batches put together; read once, as long as there is room."""

    def __init__(self, source: Any, planned: int | None) -> None:
        self.source = source
        self.planned = planned
        first = source.batch(0).inputs
        self.rows = int(first.shape[0])
        self.micro = max(1, self.rows // 2)
        self.room = max(8, min(MOST_ROWS // self.rows, MOST_TOKENS // max(1, first.numel())))
        self.edge = epoch_steps(source)
        self.kept: dict[int, Batch] = {}

    def batch(self, step: int) -> Batch:
        """The batch of a step."""
        found = self.kept.get(step)
        if found is None:
            found = joined(list(self.source.micro_batches(step, self.micro)))
            if len(self.kept) < self.room:
                self.kept[step] = found
        return found

    def steps(self) -> list[int]:
        """Steps to look at: the first ones, those about the end of the first epoch, and evenly all along the run."""
        last = max(self.planned or 0, self.edge + 2)
        total = getattr(self.source, "total_steps", None)
        if last <= self.room:
            wanted = set(range(last))
        else:
            wanted = {*range(self.room // 4), *range(max(0, self.edge - 4), self.edge + 4)}
            half = max(1, self.room // 2)
            wanted |= {round((last - 1) * part / half) for part in range(half + 1)}
        return sorted(step for step in wanted if total is None or step < max(1, total))


def fed(subject: Subject) -> Fed:
    """The subject's own, made at first use."""
    found: Fed | None = subject.extra.get("fed")
    if found is None:
        source = subject.need("source", "a batch source")
        found = subject.extra["fed"] = Fed(source, subject.extra.get("planned_steps"))
    return found


def epoch_steps(source: Any) -> int:
    """The first step that lies in the second epoch."""
    low, high = 0, 1
    while source.epoch(high) < 1.0 and high < 1 << 40:
        low, high = high, high * 2
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if source.epoch(middle) >= 1.0 else (middle, high)
    return high
