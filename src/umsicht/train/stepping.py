"""One step of a training in plain sight: micro-batches, gradient, hooks, update; and all the parts that a step is made of."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable

import torch
from torch import nn

from umsicht.findings import Finding
from umsicht.recipe.train import TrainSettings
from umsicht.record import QUIET, Progress, Run
from umsicht.survive import pulse
from umsicht.tokens.batch import IGNORE, Batch, BatchSource
from umsicht.train import compiling, randomness, settling
from umsicht.train.agreement import Agreement
from umsicht.train.ahead import Ahead
from umsicht.train.alone import ALONE
from umsicht.train.average import averaged_from
from umsicht.train.budget import rows_at, tokens_at
from umsicht.train.changes import check_unchanged
from umsicht.train.clock import communicated_s
from umsicht.train.early import BestValues, EarlyStopping
from umsicht.train.hooks import Hook, HookSet, StopRun, View
from umsicht.train.objective import LanguageModelling, Objective
from umsicht.train.optimizer import Optimizer
from umsicht.train.precision import Autocast, computing
from umsicht.train.reduction import Reduction, clip, local
from umsicht.train.saver import Saver
from umsicht.train.schedule import Schedule
from umsicht.train.shares import joined, micro_batches, shorter
from umsicht.train.silent import SilentRun
from umsicht.train.state import Carried, Position
from umsicht.train.stragglers import Stragglers
from umsicht.words import t


class Stepping:
    """The parts of a training, settled for this machine and its record, and how one step goes; `Trainer` makes a run of it."""

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
        # The last batch of all is a whole one, also where batches grow.
        self.whole_step = growth.total_steps if (growth := getattr(source, "growth", None)) else 0
        whole = source.batch(self.whole_step).inputs
        self.rows = whole.shape[0]
        self.machine = settling.machine_of(
            run,
            settings,
            reduction,
            model,
            rows=self.rows,
            seq_len=whole.shape[1],
            progress=self.progress,
        )
        self.device = torch.device(self.machine.device)
        self.model = reduction.place(computing(model.to(self.device), self.machine))
        self.objective = self._computed(objective) if objective else self._objective()
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
        self.step_tokens = source.tokens_per_batch
        self.stop_signal = ""
        self.steps_here = 0
        self.agreement = Agreement(reduction.ranks)
        self.total_steps = 1
        self.ahead = Ahead(self._micro_batches, lambda: self.total_steps)
        self.total_steps, self.machine = settling.length_and_machine(
            run,
            settings,
            reduction,
            source,
            self.machine,
            gradient=self._timed_gradient,
            step_seconds=self._measure_step,
        )
        self.carried.optimizer.zero_grad()
        self.objective = self._computed(objective) if objective else self._objective()
        self.schedule = Schedule(settings.schedule, self.total_steps)
        self.saver: Saver = reduction.saver(run, settings.checkpoint, self.progress)
        self.stragglers = Stragglers(
            reduction.ranks, flops_per_token, settling.peak_flops_per_s(self.machine, flops_per_token)
        )
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

    def _computed(self, objective: Objective) -> Objective:
        """An objective from outside, in the number format of the machine."""
        return Autocast(objective) if self.machine.precision == "autocast" else objective

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

    def _timed_gradient(self) -> None:
        self._gradient(self.whole_step)

    def _micro_batches(self, step: int) -> list[Batch]:
        """This rank's micro-batches of update `step` (0-based); in the first phase the same tokens in shorter rows."""
        batches = micro_batches(
            self.source,
            step,
            self.machine.micro_batch,
            total=rows_at(self.source, step) or self.rows,
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
        self.step_tokens = tokens_at(self.source, index)
        hooks.begin_step(view.step, view.tokens, view.tokens + self.step_tokens)
        early = self.agreement.reason(lambda: hooks.before_step(view))
        start, exchanged = time.perf_counter(), communicated_s()
        view.loss, view.active_targets, batches, waited = self._gradient(index)
        view.batch = joined(batches)
        view.tokens += self.step_tokens
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
