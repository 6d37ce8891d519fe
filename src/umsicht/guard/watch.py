"""A monitor for anybody's loop: `with guard.watch(folder, model, optimizer) as w: … w.step(loss, batch)`.

It listens to the optimizer itself, so that it looks between the backward pass and the update wherever the loop calls `optimizer.step()`: a
gradient that is not finite never reaches the weights. The first steps are audited once: leftover gradients, learning rate, parameters that do
not move.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import nn

from umsicht.findings import Finding, UserError
from umsicht.findings.finding import Grade
from umsicht.guard.adapt_batch import Example, read_batch
from umsicht.guard.adapt_model import ModelView
from umsicht.guard.monitors.rule import Alarm, SpikeRule
from umsicht.guard.watch_audit import Audit
from umsicht.guard.watch_cause import cause_and_place, replays
from umsicht.guard.watch_fed import FirstBatches
from umsicht.guard.watch_log import WatchLog
from umsicht.guard.watch_ranks import Beside, place
from umsicht.guard.watch_rows import FedRows
from umsicht.words import t

FORWARDS = 64
"""Calls of the model in one step whose ids are looked at."""


class GuardStop(RuntimeError):
    """Raised where the run must not go on; `finding` says why. The weights have not moved."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(f"{finding.id}: {finding.location}")
        self.finding = finding


class Watch:
    """What `watch` gives: call `step(loss, batch)` once a training step, before or after `optimizer.step()`.

    `findings` collects what was seen; `on_alarm` is `note` or `stop` for spikes and shifts. Non-finite values always stop: they raise `GuardStop`,
    or, with `raises=False`, set `stopped` and leave the update nothing to move. With `listens=False` the loop itself calls `before_update` and
    `after_update`: for loops that compute the gradient inside `optimizer.step(closure)`. With `tokenizer` begin and end tokens of the first batches
    are looked at too. Of several processes each keeps a record of its own (`folder/ranks/1` and on) and rank 0 compares them.
    """

    def __init__(
        self,
        folder: str | Path,
        model: nn.Module,
        optimizer: torch.optim.Optimizer | None = None,
        *,
        schedule: Callable[[int], float] | None = None,
        loss: Callable[[nn.Module, Any], torch.Tensor] | None = None,
        on_alarm: str = "note",
        repeats_are_fine: bool = False,
        tokenizer: Any = None,
        raises: bool = True,
        listens: bool = True,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise UserError(
                t("guard.api.watch_model.what"),
                "model=",
                t("guard.api.watch_model.why"),
                t("guard.api.watch_model.fix"),
            )
        rank, _ = place()
        # Every process keeps a record of its own; the first one's is the training's.
        self.folder = Path(folder) / f"ranks/{rank}" if rank else Path(folder)
        self.model, self.optimizer, self.loss = model, optimizer, loss
        self.on_alarm = on_alarm
        self.raises, self.listens = raises, listens
        self.stopped: Finding | None = None
        self.rule = SpikeRule()
        self._log = WatchLog(self.folder)
        self._audit = Audit(self._log, model, optimizer, schedule, loss)
        self._rows = FedRows(self._log, repeats_are_fine)
        self._beside = Beside(self._log, Path(folder), model)
        self._first = FirstBatches(self._log, model, tokenizer)
        self._batch: Any = None
        self._handles: list[Any] = []
        self._norm = self._loss_before = math.nan
        self._forward_batches: list[torch.Tensor] = []
        self._trained = self._learns_in_eval = False

    @property
    def findings(self) -> list[Finding]:
        """What was seen so far."""
        return self._log.findings

    @property
    def steps(self) -> int:
        """Steps so far."""
        return self._log.steps

    def say(self, finding: Finding) -> None:
        """Keep a finding that was made elsewhere."""
        self._log.add(finding.id, finding.grade, finding.location, **finding.numbers)

    def expect_repeats(self) -> None:
        """From here on rows may have come before; a whole pass in the order of the last is still said."""
        self._rows.repeats_are_fine = True

    # -- being switched on and off ---------------------------------------------------------------------------------------------
    def __enter__(self) -> Watch:
        self._log.open()
        self._beside.open()
        if self.optimizer is not None and self.listens:
            self._handles.append(self.optimizer.register_step_pre_hook(self.before_update))
            self._handles.append(self.optimizer.register_step_post_hook(self.after_update))
        self._handles.append(self.model.register_forward_pre_hook(self._forward, with_kwargs=True))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._first.judge()
        self._beside.judge()
        self._log.close()

    # -- moments ---------------------------------------------------------------------------------------------------------------
    def _forward(self, _: nn.Module, arguments: Any, keywords: dict[str, Any]) -> None:
        """Remember what the model is fed; validation in eval mode does not count."""
        if not self.model.training:
            self._learns_in_eval |= torch.is_grad_enabled()
            return
        self._trained = True
        ids = keywords.get("input_ids", arguments[0] if arguments else None)
        if len(self._forward_batches) == FORWARDS or not isinstance(ids, torch.Tensor):
            return
        if not ids.is_floating_point():
            self._forward_batches.append(ids.detach())
            self._first.see(ids, keywords)

    def before_update(self, *_: Any) -> None:
        """Between backward and update: the last moment at which nothing is lost."""
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        if not gradients:
            self._log.add(
                "OPT-WIRING/no-gradient",
                "warn",
                "gradient",
                none=0,
                zero=0,
                parameters=0,
                names="",
                once=True,
            )
            return
        norms = torch._foreach_norm(gradients)
        self._norm = float(torch.stack([norm.float() for norm in norms]).square().sum().sqrt())
        if not math.isfinite(self._norm) or (self._norm == 0.0 and self._nothing_to_learn()):
            self._stop(self._explain(math.nan))
            return
        if self._learns_in_eval and not self._trained and ModelView(self.model).drops():
            self._log.add(
                "OPT-WIRING/trains-in-eval-mode",
                "warn",
                "training step",
                once=True,
                steps=self._audit.updates + 1,
            )
        self._trained = self._learns_in_eval = False
        self._audit.before(self._batch)
        self._beside.before(self._forward_batches)

    def after_update(self, *_: Any) -> None:
        """What moved; which rate was used."""
        self._audit.after()

    def _nothing_to_learn(self) -> bool:
        """A batch without any active target: its gradient is zero rather than NaN, and the decay alone would move the weights."""
        example = self._example()
        return example is not None and example.labels is not None and not bool(example.active.any())

    def _stop(self, finding: Finding) -> None:
        """Raise; or, in a loop that must end in its own way, take the gradients away so that the coming update moves nothing."""
        self.stopped = finding
        if self.raises:
            raise GuardStop(finding)
        for parameter in self.model.parameters():
            parameter.grad = None

    # -- the user's call -------------------------------------------------------------------------------------------------------
    def feed(self, batch: Any) -> None:
        """Tell the monitor the batch before `optimizer.step()`: it is kept with any alarm and used to replay a failure."""
        self._batch = batch

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Around forward and backward: an id outside the embedding raises there, and is named like any other cause."""
        try:
            yield
        except (IndexError, RuntimeError) as error:
            if self._batch is None or self.loss is None:
                raise
            raise GuardStop(self._explain(math.nan)) from error

    def step(
        self, loss: torch.Tensor | float, batch: Any = None, *, number: int | None = None, **figures: float
    ) -> list[Finding]:
        """One training step is done (or about to be): judge its loss, write a row, return what is new. May raise `GuardStop`.

        `number` is the step's own where not every step is told.
        """
        self._log.next_step(number)
        if batch is not None:
            self._batch = batch
        value = float(loss.detach()) if isinstance(loss, torch.Tensor) else float(loss)
        rate = self._rate()
        known = len(self.findings)
        row = {"train/loss": value, "train/grad_norm": self._norm}
        self._log.row({**row, **({"train/lr": rate} if rate is not None else {}), **figures})
        if not math.isfinite(value):
            raise GuardStop(self._explain(value))
        self._loss_before = value
        alarm = self.rule.see(self.steps, value, rate)
        if alarm is not None:
            self._raise_alarm(alarm)
        self._rows.look(self._forward_batches)
        if self.steps % 100 == 0:
            self._weights()
        self._forward_batches = []
        return self.findings[known:]

    def _rate(self) -> float | None:
        return float(self.optimizer.param_groups[0]["lr"]) if self.optimizer is not None else None

    # -- what is looked at -----------------------------------------------------------------------------------------------------
    def _raise_alarm(self, alarm: Alarm) -> None:
        """A spike or a shift: noted with its batch, and the end of the run where the user wants that."""
        grade: Grade = "stop" if self.on_alarm == "stop" else "warn"
        found = self._log.add(
            f"CURVE/{alarm.kind}",
            grade,
            f"run: step {self.steps}",
            step=self.steps,
            value=alarm.value,
            expected=alarm.expected,
            scale=alarm.scale,
            sigmas=alarm.sigmas,
            grad_norm=self._norm,
            norm_factor=math.nan,
            remedy=self.on_alarm,
        )
        self._log.keep(found, self._example())
        if grade == "stop":
            raise GuardStop(found)

    def _weights(self) -> None:
        for name, parameter in self.model.named_parameters():
            if not bool(torch.isfinite(parameter).all()):
                raise GuardStop(
                    self._log.add(
                        "NUMERIC/weights-not-finite",
                        "stop",
                        f"run: step {self.steps}, {name}",
                        step=self.steps,
                        name=name,
                        values=1,
                        share=0.0,
                    )
                )

    def _example(self) -> Example | None:
        if self._batch is None:
            return None
        try:
            return read_batch(self._batch)
        except UserError:
            return None

    def _explain(self, value: float) -> Finding:
        """Name the first bad tensor and the cause."""
        example = self._example()
        first, second = replays(self.model, self.loss, self._batch, self.steps, value)
        cause, place = cause_and_place(self.model, first, second, example)
        rate = self._rate()
        finding = self._log.add(
            f"NUMERIC/{cause}",
            "stop",
            f"run: step {self.steps}, {place}",
            step=self.steps,
            loss=value,
            grad_norm=self._norm,
            rate=math.nan if rate is None else rate,
            first_forward=first.forward or "—",
            first_backward=first.backward or (first.gradients[0] if first.gradients else "—"),
            operation=first.operation or "—",
            replays="equal" if first.same_as(second) else "different",
            largest=first.largest,
            loss_before=self._loss_before,
        )
        self._log.keep(finding, example)
        return finding


def watch(
    folder: str | Path, model: nn.Module, optimizer: torch.optim.Optimizer | None = None, **options: Any
) -> Watch:
    """Watch a training loop that is not Umsicht's; see `Watch`. Raises `UserError` where the folder cannot be written."""
    return Watch(folder, model, optimizer, **options)
