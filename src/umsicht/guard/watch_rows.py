"""The rows that a foreign loop is fed, told apart by content: rows that come again, and whole passes in the order of the last."""

from __future__ import annotations

import torch

from umsicht.guard.watch_log import WatchLog

REMEMBERED = 500_000
CHAIN = 8
"""Steps in a row that are, row for row, those of an earlier pass. A single batch shown again and again is no pass."""


class FedRows:
    """Remembers at which step a row came first."""

    def __init__(self, log: WatchLog, repeats_are_fine: bool) -> None:
        self.log, self.repeats_are_fine = log, repeats_are_fine
        self._seen: dict[int, int] = {}
        self._distance = self._chain = 0

    def look(self, batches: list[torch.Tensor]) -> None:
        """Rows of one step."""
        step = self.log.steps
        firsts: list[int | None] = []
        for ids in batches:
            for row in ids.cpu().numpy():
                key = hash(row.tobytes())
                seen = self._seen.setdefault(key, step)
                firsts.append(seen if seen != step else None)
        if len(self._seen) > REMEMBERED:
            self._seen.clear()
        repeated = sum(one is not None for one in firsts)
        if not firsts or step == 1:
            return
        if self._as_before(step, firsts):
            if self._chain == CHAIN:
                self._say_same_order(len(firsts))
            return
        if repeated >= max(2, 0.5 * len(firsts)):
            self._say_repeats(step, repeated, len(firsts))

    def _as_before(self, step: int, firsts: list[int | None]) -> bool:
        """Whether all rows came together before, as far back as those of the step before did."""
        source = firsts[0]
        if source is None or any(one != source for one in firsts) or step - source < CHAIN:
            self._distance = self._chain = 0
            return False
        # From the third pass on the first time lies several passes back.
        follows = self._distance and (step - source) % self._distance == 0
        self._chain = self._chain + 1 if follows else 1
        self._distance = self._distance if follows else step - source
        return True

    def _say_same_order(self, rows: int) -> None:
        self.log.add(
            "DATA-ORDER/same-order",
            "warn",
            f"data order: step {self.log.steps - CHAIN + 1}",
            once=True,
            rows=CHAIN * rows,
        )

    def _say_repeats(self, step: int, repeats: int, rows: int) -> None:
        if self.repeats_are_fine or {"DATA-ORDER/repeats", "DATA-ORDER/same-order"} & self.log.said:
            return
        self.log.add(
            "DATA-ORDER/repeats",
            "warn",
            f"data order: step {step}",
            repeats=repeats,
            rows=rows,
            share=repeats / rows,
            once=True,
        )
