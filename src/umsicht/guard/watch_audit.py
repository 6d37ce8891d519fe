"""The first updates of a foreign loop, audited once: what does not move, which rates were used, which gradients were left over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from umsicht.guard.adapt_model import ModelView
from umsicht.guard.gradients import gradients_of, relative_gap, scale_of, set_aside
from umsicht.guard.probes.habits import left_behind
from umsicht.guard.subject import random_state, restore_random_state
from umsicht.guard.watch_log import WatchLog

AUDITED = 20
"""Updates."""
RISING = 6
"""Steps that show a warm-up."""
ZEROS = 10
"""Steps in a row at a rate of zero that no schedule has on purpose."""
RECOMPUTED = (1, 2, 5)
"""Updates before which the gradient is computed again: each costs a step."""


class Audit:
    """Looks on both sides of every update; after `AUDITED` of them only the schedule is compared."""

    def __init__(
        self,
        log: WatchLog,
        model: nn.Module,
        optimizer: torch.optim.Optimizer | None,
        schedule: Callable[[int], float] | None,
        loss: Callable[[nn.Module, Any], torch.Tensor] | None,
    ) -> None:
        self.log, self.model, self.optimizer, self.schedule, self.loss = log, model, optimizer, schedule, loss
        self.updates = 0
        self._before: dict[str, torch.Tensor] = {}
        self._still: dict[str, int] = {}
        self._rates: list[list[float]] = []
        self._at_zero = 0

    def before(self, batch: Any) -> None:
        """Gradients are there, weights have not moved."""
        if self.updates >= AUDITED:
            return
        if self.optimizer is not None:
            self._rates.append([float(group["lr"]) for group in self.optimizer.param_groups])
        self._before = {
            name: p.detach().clone()
            for name, p in self.model.named_parameters()
            if p.requires_grad and p.numel()
        }
        self._leftover(batch)

    def after(self) -> None:
        """What moved; which rate was used."""
        self.updates += 1
        for name, parameter in self.model.named_parameters():
            old = self._before.get(name)
            if old is not None:
                self._still[name] = self._still.get(name, 0) + int(torch.equal(old, parameter.detach()))
        self._before = {}
        if self.updates == AUDITED:
            self._judge_still()
            behind = left_behind(self._rates)
            if behind is not None:
                self.log.add(behind.id, behind.grade, behind.location, **behind.numbers)
            self._judge_first_rate()
        self._judge_zero_rate()
        self._compare_rate()

    def _judge_first_rate(self) -> None:
        """A warm-up that is set after the update: the first step goes at the full rate, the second at the lowest."""
        first, *rest = [max(rates) for rates in self._rates[:RISING]] or [0.0]
        rises = len(rest) == RISING - 1 and all(a < b for a, b in zip(rest, rest[1:], strict=False))
        if rises and first > 2 * rest[-1]:
            self.log.add(
                "OPT-WIRING/schedule",
                "warn",
                "schedule: step 1",
                step=1,
                rate=first,
                expected=max(0.0, 2 * rest[0] - rest[1]),
                once=True,
            )

    def _judge_zero_rate(self) -> None:
        """Steps at a rate of zero move nothing: a schedule that is over, or never begun."""
        if self.optimizer is None:
            return
        zero = all(float(group["lr"]) == 0.0 for group in self.optimizer.param_groups)
        self._at_zero = self._at_zero + 1 if zero else 0
        if self._at_zero == ZEROS:
            self.log.add(
                "OPT-WIRING/rate-zero", "warn", f"schedule: step {self.updates}", rate=0.0, once=True
            )

    def _compare_rate(self) -> None:
        if self.schedule is None or self.optimizer is None:
            return
        rate, want = float(self.optimizer.param_groups[0]["lr"]), float(self.schedule(self.updates - 1))
        if abs(rate - want) > 1e-5 * max(abs(want), 1e-12):
            self.log.add(
                "OPT-WIRING/schedule",
                "stop",
                f"schedule: step {self.updates}",
                step=self.updates,
                rate=rate,
                expected=want,
                once=True,
            )

    def _judge_still(self) -> None:
        still = [name for name, count in self._still.items() if count == self.updates]
        if still:
            self.log.add(
                "OPT-WIRING/never-moves",
                "stop",
                f"optimizer: {still[0]}",
                still=len(still),
                parameters=len(self._still),
                names=", ".join(still[:5]),
                steps=self.updates,
            )

    def _leftover(self, batch: Any) -> None:
        """With the loss at hand, the gradient of this batch alone is computed again and compared, on a few early steps."""
        if self.loss is None or batch is None or self.updates not in RECOMPUTED:
            return
        if ModelView(self.model).drops():
            return
        got = gradients_of(self.model)
        state = random_state()
        try:
            with set_aside(self.model), torch.enable_grad():
                self.loss(self.model, batch).backward()  # type: ignore[no-untyped-call]
                want = gradients_of(self.model)
        finally:
            restore_random_state(state)
        factor, cosine = scale_of(got, want)
        if relative_gap(got, want) > 1e-2 and cosine < 0.999:
            thrown_away = factor == 0.0 and cosine == 0.0
            self.log.add(
                "OPT-WIRING/gradient-thrown-away" if thrown_away else "OPT-WIRING/gradient-left-over",
                "stop",
                "training step",
                gap=relative_gap(got, want),
                factor=factor,
                cosine=cosine,
                call=self.updates + 1,
                case="loop",
                once=True,
                micro_batches=1,
            )
