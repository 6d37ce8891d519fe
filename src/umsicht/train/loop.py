"""The run: from the first step, or the newest checkpoint, to the first reason to stop. How a step goes stands in `stepping`."""

from __future__ import annotations

import gc
import math
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from umsicht.findings import Finding, render
from umsicht.record import content_id
from umsicht.survive import pulse
from umsicht.train import checkpoints, sweep
from umsicht.train.hooks import StopRun, View
from umsicht.train.pace import Pace
from umsicht.train.reduction import local
from umsicht.train.resident import PeakMemory, keep_freed
from umsicht.train.signals import StopRequest
from umsicht.train.state import Carried
from umsicht.train.stepping import Stepping
from umsicht.train.writers import open_writers
from umsicht.words import numerals, t

Reason = Literal["finished", "early-stopped", "stopped-by-guard", "interrupted"]


@dataclass(frozen=True)
class Outcome:
    """How a run ended, and after how many steps."""

    reason: Reason
    step: int
    finding: Finding | None = None
    signal: str = ""


class Trainer(Stepping):
    """Trains `model` on `source` as `settings` say, and writes everything to `run`.

    `objective` returns sums for one micro-batch (default: next-token cross-entropy); `reduction` is where other ranks come in.
    `flops_per_token` of a training step, where given, lets the share of the measured product speed be logged (`train/mfu`).
    A run that has checkpoints goes on from the newest verified one.
    """

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
        keep_freed()
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
            self._save_last_good()
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
        pace = Pace()
        position = self.carried.position
        self.model.train()
        while position.step < self.total_steps:
            pace.begin()
            view.step, view.row = position.step + 1, {}
            self._step(view)
            position.step, position.tokens = view.step, view.tokens
            view.log({"train/tokens_per_s": pace.computed(self.step_tokens)})
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
            self.progress.advance(
                1, t("train.live", loss=numerals(f"{view.loss:.3f}"), rate=numerals(f"{pace.rate:,.0f}"))
            )
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
        self.stragglers.log(view, table[:, 4:], self.step_tokens)
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

    def _save_last_good(self) -> None:
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
