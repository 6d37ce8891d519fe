"""Short real runs of the real trainer in a folder of their own: what batch algebra, one-step audit, resume and checkpoint checks rest on."""

from __future__ import annotations

import gc
import hashlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from umsicht.findings import Finding
from umsicht.guard.probe import Said
from umsicht.guard.subject import Subject
from umsicht.recipe.train import BudgetSettings, CheckpointSettings, TrainSettings
from umsicht.record import Run
from umsicht.tokens.batch import IGNORE, Batch
from umsicht.train import Outcome, Trainer
from umsicht.train.hooks import Hook, StopRun, View


@dataclass
class Trace:
    """What one rehearsal saw, a value a step; hashes are of bytes, so equal means equal to the bit."""

    losses: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)
    active: list[int] = field(default_factory=list)
    batches: list[str] = field(default_factory=list)
    gradients: list[str] = field(default_factory=list)
    weights: list[str] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    first_gradient: dict[str, torch.Tensor] = field(default_factory=dict)
    clipped_norms: list[float] = field(default_factory=list)

    def row(self, index: int) -> dict[str, Any]:
        """One step, for comparison."""
        return {
            "batch": self.batches[index],
            "rate": self.rates[index],
            "loss": self.losses[index],
            "gradient": self.gradients[index],
            "weights": self.weights[index],
        }


class Recorder(Hook):
    """Writes a `Trace`; keeps whole gradients of the first step where asked; stops after `stop_after` steps."""

    name = "guard-recorder"

    def __init__(self, *, keep_gradient: bool = False, stop_at: int | None = None) -> None:
        self.trace = Trace()
        self.keep = keep_gradient
        self.stop_at = stop_at

    def after_backward(self, view: View) -> None:
        """Gradients are whole, weights have not moved."""
        trace = self.trace
        trace.steps.append(view.step)
        trace.losses.append(view.loss)
        trace.rates.append(view.lr)
        trace.norms.append(view.grad_norm)
        trace.active.append(view.active_targets)
        trace.batches.append(digest([view.batch.inputs, view.batch.targets]))
        gradients = {name: p.grad for name, p in view.model.named_parameters() if p.grad is not None}
        trace.gradients.append(digest(list(gradients.values())))
        if self.keep and not trace.first_gradient:
            trace.first_gradient = {name: gradient.detach().clone() for name, gradient in gradients.items()}
        if self.stop_at is not None and view.step >= self.stop_at:
            raise StopRun(Finding("RECORD/rehearsal-over", "note", "run"))

    def after_step(self, view: View) -> None:
        """Weights have moved."""
        parameters = list(view.model.parameters())
        squares = [p.grad.float().square().sum() for p in parameters if p.grad is not None]
        self.trace.clipped_norms.append(float(torch.stack(squares).sum().sqrt()) if squares else 0.0)
        self.trace.weights.append(digest([p.detach() for p in parameters]))


class LossRecorder(Hook):
    """Losses and rates alone: nothing is hashed."""

    name = "guard-losses"

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.rates: list[float] = []

    def after_backward(self, view: View) -> None:
        """One step."""
        self.losses.append(view.loss)
        self.rates.append(view.lr)


def digest(tensors: Sequence[torch.Tensor]) -> str:
    """SHA-256 over the bytes of tensors."""
    total = hashlib.sha256()
    for tensor in tensors:
        plain = tensor.detach().cpu().contiguous()
        # A single number has no axis to be cut into bytes along.
        total.update(plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b"")
    return total.hexdigest()[:16]


class Masked:
    """A batch source with some targets switched off: a different number in every row, so that means of means show."""

    def __init__(self, source: Any) -> None:
        self.source = source

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)

    def _mask(self, batch: Batch) -> Batch:
        targets = batch.targets.clone()
        seq = targets.shape[1]
        for row, sample in enumerate(batch.rows.tolist()):
            keep = max(1, (seq * (1 + (sample * 7919) % 7)) // 8)
            targets[row, keep:] = IGNORE
        return Batch(batch.inputs, targets, batch.document_ids, batch.rows)

    def batch(self, step: int) -> Batch:
        """The global batch, masked."""
        return self._mask(self.source.batch(step))

    def micro_batches(self, step: int, rows: int, rank: int = 0, world: int = 1) -> Iterator[Batch]:
        """Micro-batches of the same, masked by sample and so independently of how they are cut."""
        for part in self.source.micro_batches(step, rows, rank, world):
            yield self._mask(part)


@dataclass
class Stage:
    """Makes trainers for rehearsals: fresh model, real source, real settings, a run folder that is thrown away."""

    make_model: Callable[[], nn.Module]
    make_source: Callable[[], Any]
    settings: TrainSettings
    folder: Path
    seed: int = 0
    steps: int = 10
    machine: dict[str, Any] | None = None
    objective: Any = None
    monitors: Callable[[TrainSettings, int], list[Hook]] | None = None

    def short(self, steps: int | None = None, **changes: Any) -> TrainSettings:
        """The recipe's settings on a run of a few steps; checkpoints only where the rehearsal asks for one."""
        return self.settings.model_copy(
            update={
                "budget": BudgetSettings(steps=steps or self.steps),
                "checkpoint": CheckpointSettings(
                    every_minutes=None, asynchronous=False, keep_last=3, keep_best={}
                ),
                "early_stopping": None,
                "writers": [],
                "log_every": 1,
                **changes,
            }
        )

    def even(self, steps: int | None = None) -> TrainSettings:
        """As `short`, with every step like every other: rows of full length, and weights that are the optimizer's own and no mean."""
        optimizer = self.settings.optimizer.model_copy(update={"average_share": 0.0})
        phases = self.settings.phases.model_copy(update={"short_sequences": None, "small_batches": None})
        return self.short(steps, optimizer=optimizer, phases=phases)

    def run(self, name: str) -> Run:
        """The rehearsal's run folder, made where it is not there."""
        path = self.folder / name
        if (path / "manifest.json").is_file():
            return Run.open(path)
        run = Run.create(path, {"name": name, "recipe": {}, "inputs": {}, "seed": self.seed})
        if self.machine is not None:
            run.update_manifest(machine=self.machine)
        return run

    def trainer(
        self,
        name: str,
        *,
        hooks: Sequence[Hook] = (),
        source: Any = None,
        micro_batch: int | None = None,
        settings: TrainSettings | None = None,
    ) -> Trainer:
        """A trainer on the resolved path; `micro_batch` overrides that one choice."""
        run = self.run(name)
        if micro_batch is not None and run.manifest.get("machine"):
            run.update_manifest(machine={**run.manifest["machine"], "micro_batch": micro_batch})
        options: dict[str, Any] = {"objective": self.objective} if self.objective is not None else {}
        return Trainer(
            self.make_model(),
            source if source is not None else self.make_source(),
            settings or self.short(),
            run,
            hooks=tuple(hooks),
            seed=self.seed,
            **options,
        )

    def trace(
        self, name: str, *, stop_at: int | None = None, keep_gradient: bool = False, **options: Any
    ) -> Trace:
        """Run and return what was seen."""
        recorder = Recorder(keep_gradient=keep_gradient, stop_at=stop_at)
        fit(self.trainer(name, hooks=[recorder], **options))
        return recorder.trace


def fit(trainer: Trainer) -> Outcome:
    """Run a rehearsal. What lives already is put out of the collector's sight: the loop collects at its start, and a check starts it often."""
    gc.freeze()
    outcome = trainer.fit()
    unwritten = [one for one in trainer.run.findings() if one["id"] == "CHECKPOINT/not-written"]
    if unwritten:
        # Whatever follows would be blamed on the resume; it is the disk.
        raise Said(Finding.from_dict({**unwritten[0], "grade": "stop"}))
    return outcome


@contextmanager
def scratch(root: Path | None) -> Iterator[Path]:
    """A temporary folder, beside the project where one is given (same disk, same limits)."""
    if root is not None:
        root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".check-", dir=root) as name:
        yield Path(name)


def stage_of(subject: Subject) -> Stage:
    """The rehearsal stage, or `Cannot`."""
    found: Stage = subject.need("stage", "a trainer")
    return found
