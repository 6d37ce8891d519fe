"""Decisions of several ranks: what one rank stops for, all stop for, at the same step."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from umsicht.findings import Finding
from umsicht.train.hooks import StopRun
from umsicht.train.ranks import Ranks


class Agreement:
    """Collects reasons to stop until the place in the step where all ranks compare theirs."""

    def __init__(self, ranks: Ranks) -> None:
        self._ranks = ranks

    def reason(self, call: Callable[[], Any]) -> StopRun | None:
        """What `call` stops the run for. One process stops at once; several go on to the place where they agree."""
        try:
            call()
        except StopRun as stopped:
            if self._ranks.world == 1:
                raise
            return stopped
        return None

    def together(self, call: Callable[[], Any]) -> None:
        """Run `call` on every rank; where it stops one of them, all stop. Raises StopRun."""
        stopped = self.reason(call)
        if self._ranks.any(stopped is not None):
            raise self.shared(stopped)

    def skips(self, ask: Callable[[], bool], stopped: StopRun | None, step: int, norm: float) -> bool:
        """True where `ask` wants this step left out on any rank. Raises StopRun on all where one stops (or had `stopped` before).

        The gradient norm, which every rank must have to the bit, is compared on the way: before the weights move apart.
        """
        answer: list[bool] = []
        stopped = stopped or self.reason(lambda: answer.append(ask()))
        mine = torch.tensor([float(any(answer)), float(stopped is not None), norm], dtype=torch.float64)
        table = self._ranks.table(mine)
        if bool(table[:, 1].any()):
            raise self.shared(stopped)
        norms = table[:, 2].tolist()
        other = next((rank for rank, one in enumerate(norms) if not _same(one, norms[0])), None)
        if other is not None:
            numbers = {"step": step, "rank": other, "norm": str(norms[other]), "first": str(norms[0])}
            raise StopRun(Finding("RANK/gradients-differ", "stop", "train", f"ranks: step {step}", numbers))
        return bool(table[:, 0].any())

    def shared(self, stopped: StopRun | None) -> StopRun:
        """One rank's reason to stop, on every rank, and which rank's it is.

        A cause that came again when the step was repeated goes before one that did not: the batch at fault lies on one rank only.
        """
        found = [
            replace(finding, numbers={**finding.numbers, "rank": rank})
            for rank, finding in enumerate(self._ranks.gather(None if stopped is None else stopped.finding))
            if finding is not None
        ]
        return StopRun(next((f for f in found if f.numbers.get("replays") == "equal"), found[0]))

    def named(self, text: str) -> str:
        """The first text that is not empty, in rank order."""
        return next((one for one in self._ranks.gather(text) if one), "")


def _same(one: float, other: float) -> bool:
    """Equal to the bit, or both not a number."""
    return one == other or (math.isnan(one) and math.isnan(other))
