"""A monitor for anybody's loop: `with guard.watch(folder, model, optimizer) as w: … w.step(loss, batch)`.

It listens to the optimizer itself, so that it looks between the backward pass and the update wherever the loop calls `optimizer.step()`: a
gradient that is not finite never reaches the weights. The first steps are audited once: leftover gradients, learning rate, parameters that do
not move.
"""

from __future__ import annotations

import math
import time
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
from umsicht.guard.gradients import gradients_of, relative_gap, scale_of, set_aside
from umsicht.guard.monitors.nonfinite import Facts, Replay, cause_of, replay
from umsicht.guard.monitors.rule import SpikeRule
from umsicht.guard.probes.habits import left_behind
from umsicht.guard.subject import numbers, random_state, restore_random_state
from umsicht.record import atomic_json
from umsicht.record.metrics import MetricsWriter
from umsicht.record.run import append_jsonl

AUDITED = 20


class GuardStop(RuntimeError):
    """Raised where the run must not go on; `finding` says why. The weights have not moved."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(f"{finding.id}: {finding.location}")
        self.finding = finding


class Watch:
    """What `watch` gives: call `step(loss, batch)` once a training step, before or after `optimizer.step()`.

    `findings` collects what was seen; `on_alarm` is `note` or `stop` for spikes and shifts. Non-finite values always stop: they raise `GuardStop`,
    or, with `raises=False`, set `stopped` and leave the update nothing to move. With `listens=False` the loop itself calls `before_update` and
    `after_update`: for loops that compute the gradient inside `optimizer.step(closure)`.
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
        raises: bool = True,
        listens: bool = True,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise UserError(
                "model= is not an nn.Module",
                "model=",
                "a monitor reads parameters and gradients",
                "pass the module itself",
            )
        self.folder = Path(folder)
        self.model, self.optimizer, self.schedule, self.loss = model, optimizer, schedule, loss
        self.on_alarm, self.repeats_are_fine = on_alarm, repeats_are_fine
        self.raises, self.listens = raises, listens
        self.stopped: Finding | None = None
        self.rule = SpikeRule()
        self.findings: list[Finding] = []
        self.steps = 0
        self._batch: Any = None
        self._handles: list[Any] = []
        self._writer: MetricsWriter | None = None
        self._seen: dict[int, int] = {}
        self._norm = math.nan
        self._before: dict[str, torch.Tensor] = {}
        self._still: dict[str, int] = {}
        self._updates = 0
        self._loss_before = math.nan
        self._begun = time.monotonic()
        self._said: set[str] = set()
        self._forward_batches: list[torch.Tensor] = []
        self._rates: list[list[float]] = []
        self._trained = self._learns_in_eval = False

    # -- being switched on and off ---------------------------------------------------------------------------------------------
    def __enter__(self) -> Watch:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            probe = self.folder / ".writable"
            probe.write_bytes(b"")
            probe.unlink()
        except OSError as error:
            raise UserError(
                f"{self.folder} cannot be written",
                "run_dir=",
                error.strerror or str(error),
                "name a folder that you may write",
            ) from error
        self._writer = MetricsWriter(self.folder / "metrics.jsonl", 0)
        self._attach()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _attach(self) -> None:
        if self.optimizer is not None and self.listens:
            self._handles.append(self.optimizer.register_step_pre_hook(self.before_update))
            self._handles.append(self.optimizer.register_step_post_hook(self.after_update))
        self._handles.append(self.model.register_forward_pre_hook(self._forward, with_kwargs=True))

    # -- moments ---------------------------------------------------------------------------------------------------------------
    def _forward(self, _: nn.Module, arguments: Any, keywords: dict[str, Any]) -> None:
        """Remember what the model is fed; validation in eval mode does not count."""
        if not self.model.training:
            self._learns_in_eval |= torch.is_grad_enabled()
            return
        self._trained = True
        ids = keywords.get("input_ids", arguments[0] if arguments else None)
        if isinstance(ids, torch.Tensor) and not ids.is_floating_point() and len(self._forward_batches) < 64:
            self._forward_batches.append(ids.detach())

    def before_update(self, *_: Any) -> None:
        """Between backward and update: the last moment at which nothing is lost."""
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        if not gradients:
            self._add(
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
        if self._learns_in_eval and not self._trained and _drops(self.model):
            self._add(
                "OPT-WIRING/trains-in-eval-mode", "warn", "training step", once=True, steps=self._updates + 1
            )
        self._trained = self._learns_in_eval = False
        if self._updates < AUDITED:
            if self.optimizer is not None:
                self._rates.append([float(group["lr"]) for group in self.optimizer.param_groups])
            self._before = {
                name: p.detach().clone() for name, p in self.model.named_parameters() if p.requires_grad
            }
            self._leftover()

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

    def after_update(self, *_: Any) -> None:
        """What moved; which rate was used."""
        self._updates += 1
        for name, parameter in self.model.named_parameters():
            old = self._before.get(name)
            if old is not None:
                self._still[name] = self._still.get(name, 0) + int(torch.equal(old, parameter.detach()))
        self._before = {}
        if self._updates == AUDITED:
            self._judge_still()
            behind = left_behind(self._rates)
            if behind is not None:
                self._add(behind.id, behind.grade, behind.location, **behind.numbers)
        if self.schedule is not None and self.optimizer is not None:
            rate, want = float(self.optimizer.param_groups[0]["lr"]), float(self.schedule(self._updates - 1))
            if abs(rate - want) > 1e-5 * max(abs(want), 1e-12):
                self._add(
                    "OPT-WIRING/schedule",
                    "stop",
                    f"schedule: step {self._updates}",
                    step=self._updates,
                    rate=rate,
                    expected=want,
                    once=True,
                )

    def _judge_still(self) -> None:
        still = [name for name, count in self._still.items() if count == self._updates]
        if still:
            self._add(
                "OPT-WIRING/never-moves",
                "stop",
                f"optimizer: {still[0]}",
                still=len(still),
                parameters=len(self._still),
                names=", ".join(still[:5]),
                steps=self._updates,
            )

    def _leftover(self) -> None:
        """With the loss at hand, the gradient of this batch alone is computed again and compared, on a few early steps."""
        if self.loss is None or self._batch is None or self._updates not in (1, 2, 5) or _drops(self.model):
            return
        got = gradients_of(self.model)
        state = random_state()
        try:
            with set_aside(self.model), torch.enable_grad():
                self.loss(self.model, self._batch).backward()  # type: ignore[no-untyped-call]
                want = gradients_of(self.model)
        finally:
            restore_random_state(state)
        factor, cosine = scale_of(got, want)
        if relative_gap(got, want) > 1e-2 and cosine < 0.999:
            self._add(
                "OPT-WIRING/gradient-thrown-away"
                if factor == 0.0 and cosine == 0.0
                else "OPT-WIRING/gradient-left-over",
                "stop",
                "training step",
                gap=relative_gap(got, want),
                factor=factor,
                cosine=cosine,
                call=self._updates + 1,
                case="loop",
                once=True,
                micro_batches=1,
            )

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

    def step(self, loss: torch.Tensor | float, batch: Any = None, **figures: float) -> list[Finding]:
        """One training step is done (or about to be): judge its loss, write a row, return what is new. May raise `GuardStop`."""
        if self._writer is None:
            raise UserError(
                "w.step() outside of its with block",
                "guard.watch",
                "the monitor is not switched on",
                "call it inside `with guard.watch(…) as w:`",
            )
        self.steps += 1
        if batch is not None:
            self._batch = batch
        value = float(loss.detach()) if isinstance(loss, torch.Tensor) else float(loss)
        rate = float(self.optimizer.param_groups[0]["lr"]) if self.optimizer is not None else None
        before = len(self.findings)
        self._writer.write(
            {
                "step": self.steps,
                "time": time.monotonic() - self._begun,
                "train/loss": value,
                "train/grad_norm": self._norm,
                **({"train/lr": rate} if rate is not None else {}),
                **figures,
            }
        )
        if not math.isfinite(value):
            raise GuardStop(self._explain(value))
        self._loss_before = value
        alarm = self.rule.see(self.steps, value, rate)
        if alarm is not None:
            grade: Grade = "stop" if self.on_alarm == "stop" else "warn"
            found = self._add(
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
            self._keep(found)
            if grade == "stop":
                raise GuardStop(found)
        self._repeats()
        if self.steps % 100 == 0:
            self._weights()
        self._forward_batches = []
        return self.findings[before:]

    def _repeats(self) -> None:
        """Rows of this step seen before, by content; many of them in a young run mean that the loader repeats itself."""
        if self.repeats_are_fine or "DATA-ORDER/repeats" in self._said:
            return
        repeated = total = 0
        for ids in self._forward_batches:
            for row in ids.cpu().numpy():
                total += 1
                key = hash(row.tobytes())
                seen = self._seen.get(key)
                repeated += int(seen is not None and seen != self.steps)
                self._seen.setdefault(key, self.steps)
        if len(self._seen) > 500_000:
            self._seen.clear()
        if total and repeated >= max(2, 0.5 * total) and self.steps > 1:
            self._add(
                "DATA-ORDER/repeats",
                "warn",
                f"data order: step {self.steps}",
                repeats=repeated,
                rows=total,
                share=repeated / total,
                once=True,
            )

    def _weights(self) -> None:
        for name, parameter in self.model.named_parameters():
            if not bool(torch.isfinite(parameter).all()):
                raise GuardStop(
                    self._add(
                        "NUMERIC/weights-not-finite",
                        "stop",
                        f"run: step {self.steps}, {name}",
                        step=self.steps,
                        name=name,
                        values=1,
                        share=0.0,
                    )
                )

    # -- findings --------------------------------------------------------------------------------------------------------------
    def _add(
        self, identity: str, grade: Grade, location: str, /, *, once: bool = False, **values: Any
    ) -> Finding:
        finding = Finding(identity, grade, "run", location=location, numbers=numbers(**values))
        if once and identity in self._said:
            return finding
        self._said.add(identity)
        self.findings.append(finding)
        append_jsonl(self.folder / "findings.jsonl", [{**finding.to_dict(), "step": self.steps}])
        return finding

    def _example(self) -> Example | None:
        if self._batch is None:
            return None
        try:
            return read_batch(self._batch)
        except UserError:
            return None

    def _keep(self, finding: Finding) -> None:
        example = self._example()
        if example is None:
            return
        folder = self.folder / "alarms"
        folder.mkdir(exist_ok=True)
        atomic_json(
            folder / f"step-{self.steps:08d}.json",
            {"step": self.steps, "finding": finding.id, "ids": example.ids.tolist()},
        )

    def _explain(self, value: float) -> Finding:
        """Name the first bad tensor and the cause by two replays, where a loss and a batch are at hand; else from the weights alone."""
        example = self._example()
        first = second = Replay(loss=value)
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.loss is not None and self._batch is not None:
            loss, batch = self.loss, self._batch

            def compute() -> torch.Tensor:
                torch.manual_seed(self.steps)
                return loss(self.model, batch)

            state = random_state()
            first, second = replay(self.model, compute), replay(self.model, compute)
            restore_random_state(state)
        else:
            bad = [name for name, p in self.model.named_parameters() if not bool(torch.isfinite(p).all())]
            grads = [
                name
                for name, p in self.model.named_parameters()
                if p.grad is not None and not bool(torch.isfinite(p.grad).all())
            ]
            first = second = Replay(loss=value, parameters=bad, gradients=grads)
        rows = max((m.num_embeddings for m in self.model.modules() if isinstance(m, nn.Embedding)), default=0)
        ids = example.ids if example is not None else None
        labels = example.labels if example is not None else None
        rate = float(self.optimizer.param_groups[0]["lr"]) if self.optimizer is not None else math.nan
        cause, place = cause_of(first, second, Facts(ids, labels, rows))
        finding = self._add(
            f"NUMERIC/{cause}",
            "stop",
            f"run: step {self.steps}, {place}",
            step=self.steps,
            loss=value,
            grad_norm=self._norm,
            rate=rate,
            first_forward=first.forward or "—",
            first_backward=first.backward or (first.gradients[0] if first.gradients else "—"),
            operation=first.operation or "—",
            replays="equal" if first.same_as(second) else "different",
            largest=first.largest,
            loss_before=self._loss_before,
        )
        self._keep(finding)
        return finding


def _drops(model: nn.Module) -> bool:
    from umsicht.guard.adapt_model import ModelView

    return ModelView(model).drops()


def watch(
    folder: str | Path, model: nn.Module, optimizer: torch.optim.Optimizer | None = None, **options: Any
) -> Watch:
    """Watch a training loop that is not Umsicht's; see `Watch`. Raises `UserError` where the folder cannot be written."""
    return Watch(folder, model, optimizer, **options)
