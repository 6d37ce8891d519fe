"""The training loop: one step in plain sight, everything else in rooms of its own."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from umsicht.findings import Finding, render
from umsicht.recipe.train import TrainSettings
from umsicht.record import QUIET, Progress, Run
from umsicht.tokens.batch import IGNORE, Batch, BatchSource
from umsicht.train import checkpoints, compiling, randomness
from umsicht.train.budget import total_steps
from umsicht.train.changes import check_unchanged
from umsicht.train.early import BestValues, EarlyStopping
from umsicht.train.hooks import Hook, HookSet, StopRun, View
from umsicht.train.machine import Machine, fastest_threads, resolve, threads_are_named
from umsicht.train.objective import LanguageModelling, Objective
from umsicht.train.optimizer import Optimizer
from umsicht.train.pace import Pace
from umsicht.train.precision import computing
from umsicht.train.reduction import ALONE, Reduction, clip
from umsicht.train.saver import Saver
from umsicht.train.schedule import Schedule
from umsicht.train.signals import StopRequest
from umsicht.train.state import Carried, Position
from umsicht.train.writers import open_writers
from umsicht.words import t

Reason = Literal["finished", "early-stopped", "stopped-by-guard", "interrupted"]


@dataclass(frozen=True)
class Outcome:
    """How a run ended, and after how many steps."""

    reason: Reason
    step: int
    finding: Finding | None = None


class Trainer:
    """Trains `model` on `source` as `settings` say, and writes everything to `run`.

    `objective` returns sums for one micro-batch (default: next-token cross-entropy); `reduction` is where other ranks come in.
    A run that has checkpoints goes on from the newest verified one.
    """

    def __init__(
        self,
        model: nn.Module,
        source: BatchSource,
        settings: TrainSettings,
        run: Run,
        *,
        hooks: Iterable[Hook] = (),
        objective: Objective | None = None,
        reduction: Reduction = ALONE,
        seed: int = 0,
        progress: Progress = QUIET,
    ) -> None:
        self.settings = settings
        self.run = run
        self.reduction = reduction
        self.seed = seed
        self.progress = progress
        check_unchanged(run, settings, seed)
        self.machine = self._resolve_machine(source)
        self.device = torch.device(self.machine.device)
        self.model = computing(model.to(self.device), self.machine)
        self.objective = objective or self._objective()
        self.source = source
        self.carried = Carried(
            model=self.model,
            optimizer=Optimizer(self.model, settings.optimizer),
            source=source,
            hooks=HookSet(tuple(hooks)),
            position=Position(),
            best=BestValues(settings.checkpoint.keep_best),
            early=EarlyStopping(settings.early_stopping) if settings.early_stopping else None,
        )
        self.total_steps = 1
        self.total_steps = self._settle()
        self.objective = objective or self._objective()
        self.schedule = Schedule(settings.schedule, self.total_steps)
        self.saver = Saver(run, settings.checkpoint, progress)

    def _resolve_machine(self, source: BatchSource) -> Machine:
        recorded = self.run.manifest.get("machine")
        if recorded:
            machine = Machine.from_dict(recorded)
            torch.set_num_threads(machine.threads)
            return machine
        first = source.batch(0)
        rows, seq_len = first.inputs.shape[0] // self.reduction.world, first.inputs.shape[1]
        return resolve(self.settings, rows=rows, seq_len=seq_len)

    def _settle(self) -> int:
        """What only trying can tell: threads, length, whether compiling pays. Tried once, recorded, taken from the record on resume."""
        recorded = self.run.manifest.get("planned_steps")
        if self.run.manifest.get("machine"):
            return int(recorded) if recorded else self._resolve_length()
        machine = self.machine
        if machine.device == "cpu" and machine.threads > 1 and not threads_are_named(self.settings):
            best, measured = fastest_threads(lambda: self._gradient(0), (machine.threads, 1))
            self.carried.optimizer.zero_grad()
            machine = replace(machine, threads=best, measured={**machine.measured, **measured})
        steps = int(recorded) if recorded else self._resolve_length()
        step_s = machine.measured.get(f"step_s_with_{machine.threads}_threads", 0.0)
        compiled = compiling.choose(self.settings.compile, machine.device, steps * step_s)
        self.machine = replace(machine, compile=compiled)
        self.run.update_manifest(machine=self.machine.to_dict())
        return steps

    def _resolve_length(self) -> int:
        steps = total_steps(self.settings.budget, self.source, self._measure_step)
        self.run.update_manifest(planned_steps=steps, planned_tokens=steps * self.source.tokens_per_batch)
        return steps

    def _objective(self) -> Objective:
        """The loss as the recipe and the machine say."""
        regular = self.settings.regularisation
        if self.machine.compile:
            compiling.keep_cache()
        return LanguageModelling(
            label_smoothing=regular.label_smoothing,
            z_loss=regular.z_loss,
            document_mask=self.settings.document_mask,
            compiled=self.machine.compile,
            autocast=self.machine.precision == "autocast",
        )

    def _measure_step(self) -> float:
        """Median seconds of a whole step, on the real model, whose weights and optimizer are put back afterwards."""
        weights = checkpoints.snapshot_of(self.model.state_dict())
        times = []
        for index in range(6):
            start = time.perf_counter()
            self._gradient(index)
            self.carried.optimizer.step(0.0)
            times.append(time.perf_counter() - start)
        checkpoints.restore_model(self.model, weights)
        self.carried.optimizer = Optimizer(self.model, self.settings.optimizer)
        return sorted(times[1:])[len(times[1:]) // 2]

    # One step ---------------------------------------------------------------------------------------------------------

    def _micro_batches(self, step: int) -> list[Batch]:
        """This rank's micro-batches of update `step` (0-based); in the first phase the same tokens in shorter rows."""
        batches = self.source.micro_batches(
            step, self.machine.micro_batch, self.reduction.rank, self.reduction.world
        )
        phases = self.settings.phases
        if phases.short_sequences is None or step >= round(phases.short_share * self.total_steps):
            return list(batches)
        return [shorter(batch, phases.short_sequences) for batch in batches]

    def _gradient(self, step: int) -> tuple[float, int, list[Batch], float]:
        """Gradient of the global batch's mean loss. Returns loss (nats per active target), active targets, batches, wait in s."""
        start = time.perf_counter()
        batches = self._micro_batches(step)
        waited = time.perf_counter() - start
        active = torch.tensor(sum(self._units(b) for b in batches), dtype=torch.float64)
        count = int(self.reduction.total(active).item())
        self.carried.optimizer.zero_grad()
        randomness.seed_step(self.seed, step, self.reduction.rank)
        nats = torch.zeros((), dtype=torch.float32, device=self.device)
        for batch in batches:
            sums = self.objective(self.model, batch.to(self.device))
            (sums.objective / max(1, count)).backward()  # type: ignore[no-untyped-call]  # untyped in torch
            nats += sums.nats
        self.reduction.gradients(self.carried.optimizer.parameters)
        loss = float(self.reduction.total(nats)) / max(1, count)
        return loss, count, batches, waited

    def _units(self, batch: Batch) -> int:
        """What the loss is averaged over: active targets, unless the objective counts in units of its own (pairs, answers)."""
        units = getattr(self.objective, "units", None)
        return int((batch.targets != IGNORE).sum()) if units is None else int(units(batch))

    def _step(self, view: View) -> None:
        """One optimizer step; `view` leaves with its figures."""
        index = view.step - 1
        hooks, optimizer = self.carried.hooks, self.carried.optimizer
        hooks.begin_step(view.step, view.tokens, view.tokens + self.source.tokens_per_batch)
        hooks.before_step(view)
        view.loss, view.active_targets, batches, waited = self._gradient(index)
        view.batch = joined(batches)
        view.tokens += self.source.tokens_per_batch
        view.epoch = self.source.epoch(view.step)
        norm = self.reduction.gradient_norm(optimizer.parameters)
        view.grad_norm = float(norm)
        factor = self.schedule.factor(index)
        view.lr = next(iter(optimizer.rates(factor).values()))
        view.log(
            {
                "step": view.step,
                "tokens": view.tokens,
                "train/loss": view.loss,
                "train/grad_norm": view.grad_norm,
                "train/lr": view.lr,
                "train/active_targets": view.active_targets,
                "train/epoch": view.epoch,
                "train/data_wait_s": waited,
            }
        )
        view.skipped = self.reduction.any(hooks.after_backward(view))
        self._refuse_unusable(view)
        if view.skipped:
            view.log({"train/skipped": 1})
            return
        view.clipped = clip(optimizer.parameters, view.grad_norm, self.settings.optimizer.clip_norm)
        view.log({"train/clipped": int(view.clipped)})
        optimizer.step(factor)

    def _refuse_unusable(self, view: View) -> None:
        """A step without targets or with a non-finite gradient never reaches the weights, whether or not a monitor hangs on the run."""
        if view.active_targets == 0:
            raise StopRun(
                Finding(
                    "TARGET-MASK/no-active-targets", "stop", "train", f"step {view.step}", {"step": view.step}
                )
            )
        if not (math.isfinite(view.loss) and math.isfinite(view.grad_norm)) and not view.skipped:
            numbers = {"step": view.step, "loss": str(view.loss), "grad_norm": str(view.grad_norm)}
            raise StopRun(Finding("NUMERIC/not-finite", "stop", "train", f"step {view.step}", numbers))

    # The run ----------------------------------------------------------------------------------------------------------

    def fit(self) -> Outcome:
        """Train to the end, or to the first reason to stop; the outcome is recorded in the run's manifest."""
        done = self.run.manifest.get("outcome") or {}
        if done.get("reason") in ("finished", "early-stopped"):
            return Outcome(done["reason"], int(done["step"]))
        resumed = self._resume()
        segment = self.run.begin_segment() if self.reduction.is_writer else 0
        view = View(self.run, self.model, self.carried.optimizer, self.device, self.total_steps)
        view.step, view.tokens = self.carried.position.step, self.carried.position.tokens
        self.progress.stage("train", total=self.total_steps, unit="steps")
        if resumed:
            self.progress.advance(view.step)
        writer = self.run.metrics_writer(segment)
        copies = open_writers(list(self.settings.writers), self.run)
        finding: Finding | None = None
        gc.freeze()
        gc.disable()
        try:
            with StopRequest() as stop:
                if not resumed:
                    self.carried.hooks.always("at_start", view)
                    if view.row:
                        writer.write({"step": 0, "tokens": 0, **view.row})
                reason = self._run(view, writer.write, copies, stop)
        except StopRun as stopped:
            reason, finding = "stopped-by-guard", stopped.finding
            self.run.add_finding({**stopped.finding.to_dict(), "step": view.step})
            if view.row:
                writer.write(view.row)
            self._save_last_good(view)
        finally:
            gc.enable()
            gc.unfreeze()
            self.saver.close()
            writer.sync()
            writer.close()
            for copy in copies:
                copy.close()
            self.progress.close()
        self.carried.hooks.always("at_end", view)
        step = self.carried.position.step
        states = {"finished": "finished", "early-stopped": "finished", "interrupted": "interrupted"}
        self.run.update_manifest(
            state=states.get(reason, "stopped"), outcome={"reason": reason, "step": step}
        )
        return Outcome(reason, step, finding)

    def _run(self, view: View, write: Any, copies: list[Any], stop: StopRequest) -> Reason:
        pace = Pace(self.source.tokens_per_batch)
        position = self.carried.position
        self.model.train()
        while position.step < self.total_steps:
            pace.begin()
            view.step, view.row = position.step + 1, {}
            self._step(view)
            position.step, position.tokens = view.step, view.tokens
            view.log({"train/tokens_per_s": pace.computed()})
            self.carried.hooks.after_step(view)
            position.seconds += pace.end()
            improved = self.carried.best.update(view.row, view.step)
            exhausted = self.carried.early.update(view.row, view.step) if self.carried.early else False
            if (
                view.step % self.settings.log_every == 0
                or any(k.startswith("val/") for k in view.row)
                or view.skipped
            ):
                write(view.row)
                finite = {
                    k: float(v)
                    for k, v in view.row.items()
                    if isinstance(v, int | float) and math.isfinite(v)
                }
                for copy in copies:
                    copy.write(view.step, finite)
            self.progress.advance(1, t("train.live", loss=f"{view.loss:.3f}", rate=f"{pace.rate:,.0f}"))
            last = view.step == self.total_steps
            halted = self.reduction.any(bool(stop.received))
            if last or halted or exhausted or improved or self.saver.due(view.step, view.tokens):
                self._save(view, wait=last or halted or exhausted)
            if exhausted and not last:
                return "early-stopped"
            if halted and not last:
                self.progress.note(t("train.interrupted", signal=stop.received, step=view.step))
                return "interrupted"
        return "finished"

    def _save(self, view: View, *, wait: bool) -> Path | None:
        view.checkpoint = self.saver.save(self.carried.snapshot(view.row), wait=wait)
        self.carried.hooks.always("at_checkpoint", view)
        gc.collect()
        return view.checkpoint

    def _save_last_good(self, view: View) -> None:
        """After a stop: the weights as they stand, unless they are the damage."""
        if self.carried.position.step and all(bool(p.isfinite().all()) for p in self.model.parameters()):
            with suppress(StopRun):  # the disk is full as well: recorded already
                self.saver.save(self.carried.snapshot({}), wait=True)

    def _resume(self) -> bool:
        path, findings = checkpoints.find_latest(self.run)
        for finding in findings:
            self.run.add_finding(finding.to_dict())
            self.progress.note(render(finding).seen)
        if path is None:
            return False
        loaded = checkpoints.load(path, verified=False)
        without_state = self.carried.restore(loaded)
        self.saver.resumed_at(loaded.step, loaded.tokens)
        self.progress.note(t("train.resumed", step=loaded.step, folder=path.name))
        if without_state:
            self.progress.note(t("train.hooks_without_state", names=", ".join(without_state)))
        return True


def shorter(batch: Batch, seq_len: int) -> Batch:
    """The same tokens in rows of `seq_len`: targets were shifted before, so no target is lost, only context."""
    rows, length = batch.inputs.shape
    if length % seq_len:
        return batch
    cut = (rows * (length // seq_len), seq_len)
    return Batch(
        batch.inputs.reshape(cut), batch.targets.reshape(cut), batch.document_ids.reshape(cut), batch.rows
    )


def joined(batches: list[Batch]) -> Batch:
    """Micro-batches as one batch."""
    if len(batches) == 1:
        return batches[0]
    return Batch(
        torch.cat([b.inputs for b in batches]),
        torch.cat([b.targets for b in batches]),
        torch.cat([b.document_ids for b in batches]),
        torch.cat([b.rows for b in batches]),
    )
