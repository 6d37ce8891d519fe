"""A trial: a short real training in a temporary folder, with everything a plan wants to know of it measured."""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from umsicht.model import ModelConfig, build
from umsicht.plan.flops import model_cost
from umsicht.recipe.tokens import TokensSettings
from umsicht.recipe.train import BudgetSettings, CheckpointSettings, TrainSettings, ValidationSettings
from umsicht.record import Run
from umsicht.tokens import PackedSource, TokenData
from umsicht.train import Trainer, Validation
from umsicht.train.hooks import EVERY_STEP, Hook, View
from umsicht.train.machine import choose_device
from umsicht.train.resident import PeakMemory

WARM_UP_STEPS = 2


@dataclass(frozen=True)
class Trial:
    """Figures of one short training. Times are medians over its steps, in seconds; `cpu_step_s` is processor time of this process.

    `losses` are validation scores at the end: nats a token and bits a byte by slice, `all` summed.
    """

    d_model: int
    parameters: int
    body_parameters: int
    flops_training: int
    tokens: int
    tokens_per_step: int
    micro_batch: int
    step_s: float
    cpu_step_s: float
    data_wait_s: float
    wall_s: float
    cpu_s: float
    checkpoint_s: float
    checkpoint_bytes: int
    evaluation_s: float
    peak_bytes: int
    bpb: dict[str, float] = field(default_factory=dict)
    loss: float = float("nan")

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Trial:
        """The inverse of `to_dict`."""
        return cls(**plain)


@dataclass(frozen=True)
class Bench:
    """What all trials of a plan share."""

    data: TokenData
    tokens: TokensSettings
    train: TrainSettings
    seed: int = 0


class _Clock(Hook):
    """Notes wall and processor time of each step, the loop's own figures included."""

    name = "plan-clock"
    every = EVERY_STEP

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.cpu: list[float] = []
        self.wait: list[float] = []

    def before_step(self, view: View) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def after_step(self, view: View) -> None:
        if view.device.type == "cuda":
            torch.cuda.synchronize()
        self.wall.append(time.perf_counter() - self._wall)
        self.cpu.append(time.process_time() - self._cpu)
        self.wait.append(float(view.row.get("train/data_wait_s", 0.0)))


class _TimedValidation(Validation):
    """Validation that knows how long it took."""

    seconds = 0.0

    def after_step(self, view: View) -> None:
        start = time.perf_counter()
        super().after_step(view)
        if any(key.startswith("val/") for key in view.row):
            self.seconds = time.perf_counter() - start

    def at_start(self, view: View) -> None:
        return


def run_trial(
    bench: Bench,
    config: ModelConfig,
    steps: int,
    *,
    slice_bytes: int | None = None,
    micro_batch: int | None = None,
) -> Trial:
    """Train `config` for `steps` whole steps with the recipe's own schedule squeezed into them, and measure.

    The score at the end is over `slice_bytes` of each slice (default: what the recipe's validation reads); `evaluation_s` is what the recipe's
    validation would take, by the bytes it reads.
    """
    settings = _settings(bench.train, steps, micro_batch, slice_bytes or bench.train.validation.slice_bytes)
    source = PackedSource(
        bench.data.train,
        seq_len=config.seq_len,
        batch_tokens=bench.train.global_batch_tokens,
        eos_id=bench.data.eos_id,
        seed=bench.tokens.seed,
        packing=bench.tokens.packing,
        mix=bench.tokens.mix,
        total_steps=steps,
    )
    clock = _Clock()
    validation = _TimedValidation(bench.data, settings.validation, seq_len=config.seq_len)
    hooks: tuple[Hook, ...] = (clock, validation)
    start_wall, start_cpu = time.perf_counter(), time.process_time()
    device = choose_device(settings.device)
    memory = PeakMemory(device).start()
    with tempfile.TemporaryDirectory(prefix="umsicht-plan-") as folder:
        run = Run.create(
            Path(folder) / "trial", {"name": "trial", "recipe": {}, "inputs": {}, "seed": bench.seed}
        )
        trainer = Trainer(build(config, bench.seed), source, settings, run, hooks=hooks, seed=bench.seed)
        before = time.perf_counter()
        trainer.fit()
        fit_s = time.perf_counter() - before
        row = run.metrics().rows[-1]
        size = _folder_bytes(run.checkpoints)
    steady = slice(min(WARM_UP_STEPS, max(0, steps - 1)), None)
    step_s = statistics.median(clock.wall[steady])
    cost = model_cost(config)
    scored = max(1, _validation_bytes(bench.data, settings.validation))
    return Trial(
        d_model=config.d_model,
        parameters=cost.parameters,
        body_parameters=cost.body_parameters,
        flops_training=cost.flops_training,
        tokens=steps * source.tokens_per_batch,
        tokens_per_step=source.tokens_per_batch,
        micro_batch=trainer.machine.micro_batch,
        step_s=step_s,
        cpu_step_s=statistics.median(clock.cpu[steady]),
        data_wait_s=statistics.median(clock.wait[steady]),
        wall_s=time.perf_counter() - start_wall,
        cpu_s=time.process_time() - start_cpu,
        checkpoint_s=max(0.0, fit_s - sum(clock.wall) - validation.seconds),
        checkpoint_bytes=size,
        evaluation_s=validation.seconds * _validation_bytes(bench.data, bench.train.validation) / scored,
        peak_bytes=memory.grown_bytes(),
        bpb={
            _slice(key): float(value)
            for key, value in row.items()
            if key.startswith("val/") and key.endswith("/bpb")
        },
        loss=float(row.get("val/all/loss", row.get("train/loss", float("nan")))),
    )


PROBE_STEPS = 6
PROBE_S = 4.0
MOST_STEPS = 60


def settled_trial(bench: Bench, config: ModelConfig, *, slice_bytes: int) -> Trial:
    """A trial long enough to be believed: six steps, and where those are quick, as many as four seconds hold (60 at most).

    The first steps of a process are no measure: memory is touched for the first time, and one busy moment of the machine weighs a sixth.
    """
    first = run_trial(bench, config, PROBE_STEPS, slice_bytes=slice_bytes)
    steps = min(MOST_STEPS, int(PROBE_S / max(first.step_s, 1e-6)))
    if steps <= PROBE_STEPS:
        return first
    longer = run_trial(bench, config, steps, slice_bytes=slice_bytes)
    return replace(longer, peak_bytes=max(first.peak_bytes, longer.peak_bytes))


def _settings(train: TrainSettings, steps: int, micro_batch: int | None, slice_bytes: int) -> TrainSettings:
    return train.model_copy(
        update={
            "budget": BudgetSettings(steps=steps),
            "validation": ValidationSettings(every_steps=10**9, train_bytes=0, slice_bytes=slice_bytes),
            "checkpoint": CheckpointSettings(every_minutes=None, keep_best={}, asynchronous=False),
            "early_stopping": None,
            "writers": [],
            "micro_batch": micro_batch or train.micro_batch,
        }
    )


def _validation_bytes(data: TokenData, settings: ValidationSettings) -> int:
    """Raw bytes that one validation reads."""
    size = int(data.val.sample(settings.slice_bytes).document_bytes.sum())
    if settings.train_bytes:
        per_slice = max(1, settings.train_bytes // max(1, len(data.slices)))
        size += int(data.train.sample(per_slice).document_bytes.sum())
    return size


def _slice(key: str) -> str:
    return key.removeprefix("val/").removesuffix("/bpb")


def _folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
