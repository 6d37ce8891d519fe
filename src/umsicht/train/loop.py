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
from umsicht.record import QUIET, Progress, Run, content_id
from umsicht.survive import pulse
from umsicht.tokens.batch import IGNORE, Batch, BatchSource
from umsicht.train import checkpoints, compiling, randomness, sweep
from umsicht.train.agreement import Agreement
from umsicht.train.ahead import Ahead
from umsicht.train.average import averaged_from
from umsicht.train.budget import total_steps
from umsicht.train.changes import check_unchanged
from umsicht.train.clock import communicated_s
from umsicht.train.early import BestValues, EarlyStopping
from umsicht.train.fitting import fitted
from umsicht.train.hooks import Hook, HookSet, StopRun, View
from umsicht.train.machine import (
    PRODUCT_TYPES,
    Machine,
    fastest_threads,
    product_seconds,
    resolve,
    threads_are_named,
)
from umsicht.train.objective import LanguageModelling, Objective
from umsicht.train.optimizer import Optimizer
from umsicht.train.pace import Pace
from umsicht.train.precision import computing
from umsicht.train.reduction import ALONE, Reduction, clip, local
from umsicht.train.resident import PeakMemory
from umsicht.train.saver import Saver
from umsicht.train.schedule import Schedule
from umsicht.train.shares import micro_batches
from umsicht.train.signals import StopRequest
from umsicht.train.silent import SilentRun
from umsicht.train.state import Carried, Position
from umsicht.train.stragglers import Stragglers
from umsicht.train.writers import open_writers
from umsicht.words import t

Reason = Literal["finished", "early-stopped", "stopped-by-guard", "interrupted"]


@dataclass(frozen=True)
class Outcome:
    """How a run ended, and after how many steps."""

    reason: Reason
    step: int
    finding: Finding | None = None
    signal: str = ""


class Trainer:
    """Trains `model` on `source` as `settings` say, and writes everything to `run`.

    `objective` returns sums for one micro-batch (default: next-token cross-entropy); `reduction` is where other ranks come in.
    `flops_per_token` of a training step, where given, lets the share of the measured product speed be logged (`train/mfu`).
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
        flops_per_token: float = 0.0,
    ) -> None:
        self.settings = settings
        self.run = run = run if reduction.is_writer else SilentRun.of(run)
        self.reduction = reduction
        self.seed = seed
        self.progress = progress if reduction.is_writer else QUIET
        check_unchanged(run, settings, seed)
        self.rows = source.batch(0).inputs.shape[0]
        self.machine = self._resolve_machine(source, model)
        self.device = torch.device(self.machine.device)
        self.model = reduction.place(computing(model.to(self.device), self.machine))
        self.objective = objective or self._objective()
        self.source = source
        self.carried = Carried(
            model=self.model,
            optimizer=self._optimizer(),
            source=source,
            hooks=HookSet(self._usable((*hooks, *self._second_tier())), ranks=reduction.ranks),
            position=Position(),
            best=BestValues(settings.checkpoint.keep_best),
            early=EarlyStopping(settings.early_stopping) if settings.early_stopping else None,
        )
        self.spent = (0.0, 0.0, 0.0)
        self.stop_signal = ""
        self.steps_here = 0
        self.agreement = Agreement(reduction.ranks)
        self.total_steps = 1
        self.ahead = Ahead(self._micro_batches, lambda: self.total_steps)
        self.total_steps = self._settle()
        self.objective = objective or self._objective()
        self.schedule = Schedule(settings.schedule, self.total_steps)
        self.saver: Saver = reduction.saver(run, settings.checkpoint, self.progress)
        self.stragglers = Stragglers(reduction.ranks, flops_per_token, self._peak(flops_per_token))
        self._record_resolved()

    def _record_resolved(self) -> None:
        """What the recipe left open, as it was settled: a reader of the record need not derive it again."""
        resolved = {
            "rates": self.carried.optimizer.rates(1.0),
            "warmup_steps": self.schedule.warmup_steps,
            "decay_start": self.schedule.decay_start,
            "total_steps": self.total_steps,
        }
        if self.reduction.is_writer and self.run.manifest.get("resolved") != resolved:
            self.run.update_manifest(resolved=resolved)

    def _peak(self, flops_per_token: float) -> float:
        """Operations a second of a large product, measured here now; the ceiling that utilisation is a share of."""
        if not flops_per_token:
            return 0.0
        return 2 * 512**3 / product_seconds(PRODUCT_TYPES[self.machine.precision], self.machine.device)

    def _second_tier(self) -> list[Hook]:
        if self.settings.checkpoint.durable is None:
            return []
        from umsicht.train.durable import DurableTier

        return [DurableTier(self.run, self.settings.checkpoint)]

    def _usable(self, hooks: tuple[Hook, ...]) -> tuple[Hook, ...]:
        """Hooks without those that would have to look inside a model which no process holds."""
        blind = [h for h in hooks if self.reduction.is_split and getattr(h, "sees_inside", False)]
        if blind:
            self.progress.note(t("train.hooks_left_out", names=", ".join(h.name for h in blind)))
        return tuple(h for h in hooks if h not in blind)

    def _optimizer(self) -> Optimizer:
        return Optimizer(self.model, self.settings.optimizer, orthogonaliser=self.reduction.orthogonaliser)

    def _resolve_machine(self, source: BatchSource, model: nn.Module) -> Machine:
        """The recorded choices, or new ones; rank 0 chooses for all. In another layout threads and micro-batch are chosen anew."""
        recorded = self.run.manifest.get("machine")
        ranks, world = self.reduction.ranks, self.reduction.world
        if recorded and int(self.run.manifest.get("world", 1)) == ranks.world:
            machine = Machine.from_dict(recorded)
            torch.set_num_threads(machine.threads)
            return machine
        rows, seq_len = -(-self.rows // world), source.batch(0).inputs.shape[1]
        fresh = resolve(self.settings, rows=rows, seq_len=seq_len)
        if ranks.world == 1:
            fresh = fitted(fresh, model, self.settings, rows=rows, seq_len=seq_len)
        machine = Machine.from_dict(ranks.first(fresh.to_dict()))
        if recorded:
            kept = {"precision": recorded["precision"], "compile": False, "device": recorded["device"]}
            machine = replace(machine, **kept)
            self.progress.note(
                t("train.world_changed", old=self.run.manifest.get("world", 1), new=ranks.world)
            )
            self.run.update_manifest(machine=machine.to_dict())
        self.run.update_manifest(world=ranks.world)
        torch.set_num_threads(machine.threads)
        return machine

    def _settle(self) -> int:
        """What only trying can tell: threads, length, whether compiling pays. Tried once, recorded, taken from the record on resume."""
        recorded = self.run.manifest.get("planned_steps")
        if self.run.manifest.get("machine"):
            return int(recorded) if recorded else self._resolve_length()
        machine = self.machine
        alone = self.reduction.ranks.world == 1
        if alone and machine.device == "cpu" and machine.threads > 1 and not threads_are_named(self.settings):
            best, measured = fastest_threads(lambda: self._gradient(0), (machine.threads, 1))
            self.carried.optimizer.zero_grad()
            machine = replace(machine, threads=best, measured={**machine.measured, **measured})
        steps = int(recorded) if recorded else self._resolve_length()
        step_s = machine.measured.get(f"step_s_with_{machine.threads}_threads", 0.0)
        wanted = self.settings.compile if alone or self.settings.compile != "auto" else "off"
        compiled = compiling.choose(wanted, machine.device, steps * step_s) and not self.reduction.is_split
        self.machine = replace(machine, compile=compiled)
        self.run.update_manifest(machine=self.machine.to_dict())
        return steps

    def _resolve_length(self) -> int:
        steps = int(
            self.reduction.ranks.first(total_steps(self.settings.budget, self.source, self._measure_step))
        )
        self.run.update_manifest(planned_steps=steps, planned_tokens=steps * self.source.tokens_per_batch)
        return steps

    def _objective(self) -> Objective:
        """The loss as the recipe, the machine and the layout say."""
        regular = self.settings.regularisation
        if self.machine.compile:
            compiling.keep_cache()
        return self.reduction.fit_objective(
            LanguageModelling(
                label_smoothing=regular.label_smoothing,
                z_loss=regular.z_loss,
                document_mask=self.settings.document_mask,
                compiled=self.machine.compile,
                autocast=self.machine.precision == "autocast",
            )
        )

    def _measure_step(self) -> float:
        """Median seconds of a whole step, on the real model, whose weights and optimizer are put back afterwards."""
        weights = [local(p).detach().clone() for p in self.model.parameters()]
        times = []
        for index in range(6):
            start = time.perf_counter()
            self._gradient(index)
            self.carried.optimizer.step(0.0)
            times.append(time.perf_counter() - start)
        for parameter, weight in zip(self.model.parameters(), weights, strict=True):
            local(parameter).detach().copy_(weight)
        self.carried.optimizer = self._optimizer()
        return sorted(times[1:])[len(times[1:]) // 2]

    # One step ---------------------------------------------------------------------------------------------------------

    def _micro_batches(self, step: int) -> list[Batch]:
        """This rank's micro-batches of update `step` (0-based); in the first phase the same tokens in shorter rows."""
        batches = micro_batches(
            self.source,
            step,
            self.machine.micro_batch,
            total=self.rows,
            rank=self.reduction.rank,
            world=self.reduction.world,
        )
        phases = self.settings.phases
        if phases.short_sequences is None or step >= round(phases.short_share * self.total_steps):
            return batches
        return [shorter(batch, phases.short_sequences) for batch in batches]

    def _gradient(self, step: int) -> tuple[float, int, list[Batch], float]:
        """Gradient of the global batch's mean loss. Returns loss (nats per active target), active targets, batches, wait in s."""
        start = time.perf_counter()
        batches = self.ahead(step)
        waited = time.perf_counter() - start
        active = torch.tensor(sum(self._units(b) for b in batches), dtype=torch.float64)
        count = int(self.reduction.total(active).item())
        self.carried.optimizer.zero_grad()
        randomness.seed_step(self.seed, step, self.reduction.rank)
        pulse.at("compute")
        nats = self.reduction.backward(self.model, self.objective, batches, count, self.device)
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
        pulse.begin(view.step)
        hooks.begin_step(view.step, view.tokens, view.tokens + self.source.tokens_per_batch)
        early = self.agreement.reason(lambda: hooks.before_step(view))
        start, exchanged = time.perf_counter(), communicated_s()
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
        view.skipped = self.agreement.skips(
            lambda: hooks.after_backward(view), early, view.step, view.grad_norm
        )
        self._refuse_unusable(view)
        if view.skipped:
            view.log({"train/skipped": 1})
        else:
            view.clipped = clip(optimizer.parameters, view.grad_norm, self.settings.optimizer.clip_norm)
            view.log({"train/clipped": int(view.clipped)})
            pulse.at("update")
            optimizer.step(factor)
            view.moved += 1
        first = averaged_from(self.settings.optimizer.average_share, self.total_steps)
        if index >= first:
            optimizer.average(index - first + 1)
            if view.step == self.total_steps:
                optimizer.take_average()
        exchanged = communicated_s() - exchanged
        self.spent = (time.perf_counter() - start - exchanged - waited, exchanged, waited)

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
        segment = self.run.begin_segment()
        view: View = self.reduction.view_type()(
            self.run,
            self.model,
            self.carried.optimizer,
            self.device,
            self.total_steps,
            ranks=self.reduction.ranks,
        )
        pulse.resumed(self.carried.position.step)
        view.step, view.tokens = self.carried.position.step, self.carried.position.tokens
        self.progress.stage(t("train.stage"), total=self.total_steps, unit=t("train.unit"))
        if resumed:
            self.progress.advance(view.step)
        writer = self.run.metrics_writer(segment)
        copies = open_writers(list(self.settings.writers), self.run) if self.reduction.is_writer else []
        finding: Finding | None = None
        memory = PeakMemory(self.device).start()
        gc.freeze()
        gc.disable()
        try:
            with StopRequest() as stop:
                self._compare_ranks()
                if not resumed:
                    self.carried.hooks.always("at_start", view)
                    if view.row:
                        writer.write({"step": 0, "tokens": 0, **view.row})
                reason = self._run(view, writer.write, copies, stop)
        except StopRun as stopped:
            reason, finding = "stopped-by-guard", stopped.finding
            self.run.add_finding({**stopped.finding.to_dict(), "step": view.step})
            if view.row:
                # Before the first step there is only what hooks logged at the start.
                writer.write({"step": view.step, "tokens": view.tokens, **view.row})
            self._save_last_good(view)
        finally:
            gc.enable()
            gc.unfreeze()
            self.ahead.close()
            self.saver.close()
            writer.sync()
            writer.close()
            for copy in copies:
                copy.close()
            self.progress.close()
        self._record_memory(memory)
        self.carried.hooks.always("at_end", view)
        step = self.carried.position.step
        states = {"finished": "finished", "early-stopped": "finished", "interrupted": "interrupted"}
        self.run.update_manifest(
            state=states.get(reason, "stopped"), outcome={"reason": reason, "step": step}
        )
        return Outcome(reason, step, finding, self.stop_signal)

    def _compare_ranks(self) -> None:
        """Before the first step: exchanges that work, ranks that start from the same."""
        ranks = self.reduction.ranks
        sweep.sums_are_right(ranks, self.device)
        facts = {
            "torch": torch.__version__,
            "settings": content_id({**self.settings.plain(), "seed": self.seed}),
            "steps": self.total_steps,
            "step": self.carried.position.step,
            "data": content_id(self.source.state()),
        }
        sweep.same_everywhere(ranks, facts)
        sweep.weights_agree(ranks, self._carried_tensors(), self.carried.position.step)

    def _carried_tensors(self) -> dict[str, torch.Tensor]:
        """Weights and optimizer state by name, the parts that are here."""
        return {**dict(self.model.named_parameters()), **self.carried.optimizer.state_tensors()}

    def _compare_step(self, step: int) -> None:
        """After the second step of a start, and every so many: the same weights everywhere, every sample once."""
        every = self.reduction.check_every
        self.steps_here += 1
        if every and (self.steps_here == 2 or step % every == 0):
            sweep.weights_agree(self.reduction.ranks, self._carried_tensors(), step)
            self.ahead.settle()
            sweep.samples_once(self.reduction, self.source, step - 1, self._micro_batches(step - 1))

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
            pulse.at("hooks")
            stopped = self.agreement.reason(lambda: self.carried.hooks.after_step(view))
            position.seconds += pace.end()
            improved = bool(self.carried.best.update(view.row, view.step))
            exhausted = self.carried.early.update(view.row, view.step) if self.carried.early else False
            due = self.saver.due(view.step, view.tokens)
            self._compare_step(view.step)
            halted, exhausted, due = self._agree_on_rest(
                view, stopped, stop.received, exhausted, improved or due
            )
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
            if last or halted or exhausted or due:
                pulse.at("save")
                self._save(view, wait=last or halted or exhausted)
            pulse.done(view.step)
            if exhausted and not last:
                return "early-stopped"
            if halted and not last:
                self.stop_signal = stop.received or self.stop_signal
                self.progress.note(t("train.interrupted", signal=self.stop_signal, step=view.step))
                return "interrupted"
        return "finished"

    def _record_memory(self, memory: PeakMemory) -> None:
        """Peak of the training itself (the weights, which were there before, included), the largest of all segments."""
        if not (self.reduction.is_writer and memory.counts_afresh):
            return
        weights = sum(p.numel() * p.element_size() for p in self.model.parameters())
        peak = max(int(self.run.manifest.get("peak_bytes") or 0), memory.grown_bytes() + weights)
        self.run.update_manifest(peak_bytes=peak, process_peak_bytes=memory.peak_bytes())

    def _agree_on_rest(
        self, view: View, stopped: StopRun | None, signal: str, exhausted: bool, due: bool
    ) -> tuple[bool, bool, bool]:
        """The end of a step, one exchange: stops and signals of any rank count, the clock and the figures of rank 0 decide the rest."""
        mine = [float(stopped is not None), float(bool(signal)), float(exhausted), float(due), *self.spent]
        table = self.reduction.ranks.table(torch.tensor(mine, dtype=torch.float64))
        self.stragglers.log(view, table[:, 4:], self.source.tokens_per_batch)
        if bool(table[:, 0].any()):
            raise self.agreement.shared(stopped)
        halted = bool(table[:, 1].any())
        if halted:
            self.stop_signal = self.agreement.named(signal)
        return halted, bool(table[0, 2]), bool(table[0, 3])

    def _save(self, view: View, *, wait: bool) -> Path | None:
        def write() -> None:
            view.checkpoint = self.saver.save(self.saver.take(self.carried, view.row), wait=wait)

        if self.reduction.is_writer or self.reduction.is_split:
            self.agreement.together(write)
        else:
            self.saver.resumed_at(view.step, view.tokens)
            self.agreement.together(lambda: None)
            view.checkpoint = self.run.checkpoints / checkpoints.folder_name(view.step)
        self.carried.hooks.always("at_checkpoint", view)
        gc.collect()
        return view.checkpoint

    def _save_last_good(self, view: View) -> None:
        """After a stop: the weights as they stand, unless they are the damage."""
        whole = all(bool(local(p).isfinite().all()) for p in self.model.parameters())
        usable = self.carried.position.step and not self.reduction.any(not whole)
        if usable and (self.reduction.is_writer or self.reduction.is_split):
            with suppress(StopRun):  # the disk is full as well: recorded already
                self.saver.save(self.saver.take(self.carried, {}), wait=True, beside=True)

    def _newest(self) -> tuple[Path | None, list[Finding]]:
        """The newest whole checkpoint of this disk, else of the second tier."""
        path, findings = checkpoints.find_latest(self.run)
        if path is None and self.settings.checkpoint.durable is not None:
            from umsicht.train.durable import fetch

            path = fetch(self.run, self.settings.checkpoint)
        return path, findings

    def _fill(self, carried: Carried, path: Path) -> None:
        from umsicht.train.sharded import fill

        fill(carried, path)

    def _resume(self) -> bool:
        path, findings = self.reduction.ranks.first(self._newest() if self.reduction.is_writer else None)
        for finding in findings:
            self.run.add_finding(finding.to_dict())
            self.progress.note(render(finding).seen)
        if path is None:
            return False
        loaded = checkpoints.load(path, verified=False, with_tensors=not self.reduction.is_split)
        without_state = self.carried.restore(loaded, self._fill if self.reduction.is_split else None)
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
