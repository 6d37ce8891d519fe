"""`make bench-guards`: what all monitors together cost, at about 10 M parameters, in blocks of steps with and without them in one process."""

from __future__ import annotations

import random
import resource
import tempfile
from pathlib import Path
from typing import Any

import torch

from bench.common import QUICK, Bench
from umsicht.guard import monitors
from umsicht.model import build, derive
from umsicht.recipe.guard import GuardSettings
from umsicht.recipe.model import ModelSettings
from umsicht.recipe.train import BudgetSettings, CheckpointSettings, TrainSettings
from umsicht.record import Run
from umsicht.tokens.batch import Batch
from umsicht.train import Trainer
from umsicht.train.hooks import Hook, HookSet, View

BLOCK = 20
BLOCKS = 6 if QUICK else 44


class Source:
    """Random rows: the monitors do not care what the text says."""

    total_rows = 1 << 40
    groups = (0,)

    def __init__(self, rows: int, seq: int, vocab: int) -> None:
        self.rows, self.seq, self.vocab = rows, seq, vocab

    @property
    def tokens_per_batch(self) -> int:
        """Targets a step."""
        return self.rows * self.seq

    def batch(self, step: int) -> Batch:
        """Rows of a step."""
        generator = torch.Generator().manual_seed(step)
        ids = torch.randint(0, self.vocab, (self.rows, self.seq + 1), generator=generator)
        numbers = torch.arange(step * self.rows, (step + 1) * self.rows)
        return Batch(
            ids[:, :-1].contiguous(),
            ids[:, 1:].contiguous(),
            torch.zeros(self.rows, self.seq, dtype=torch.int32),
            numbers,
        )

    def micro_batches(self, step: int, rows: int, rank: int = 0, world: int = 1) -> Any:
        """The same in parts."""
        whole = self.batch(step)
        for first in range(0, self.rows, rows):
            yield whole.slice(first, first + rows)

    def epoch(self, step: int) -> float:
        """Never over."""
        return 0.0

    def state(self) -> dict[str, Any]:
        """Nothing decides the order."""
        return {}


class Switch(Hook):
    """Takes the monitors out of the loop and puts them back, block by block, and measures the processor time of each block."""

    name = "switch"

    def __init__(self, trainer: list[Trainer], on: HookSet, off: HookSet) -> None:
        self.trainer, self.on, self.off = trainer, on, off
        self.times: dict[bool, list[float]] = {True: [], False: []}
        self.begun = 0.0

    def after_step(self, view: View) -> None:
        """At the end of each block, note its time and switch."""
        if view.step % BLOCK:
            return
        now = resource.getrusage(resource.RUSAGE_SELF)
        spent = now.ru_utime + now.ru_stime
        active = (view.step // BLOCK) % 2 == 0
        if view.step > 2 * BLOCK:
            self.times[active].append(spent - self.begun)
        self.begun = spent
        self.trainer[0].carried.hooks = self.off if active else self.on


def main() -> None:
    """One run, blocks alternating."""
    torch.set_num_threads(1)
    bench = Bench(
        "guards",
        "Processor time of training steps with all monitors against the same steps without, blocks of 20 steps in turn, one process.",
    )
    config = derive(ModelSettings(d_model=320, n_layers=5, seq_len=128), 4096, seq_len=128)
    model = build(config, 0)
    source = Source(4, 128, 4096)
    steps = BLOCK * (BLOCKS + 3)
    settings = TrainSettings(
        budget=BudgetSettings(steps=steps),
        global_batch_tokens=512,
        precision="float32",
        threads=1,
        compile="off",
        checkpoint=CheckpointSettings(every_minutes=None),
    )
    with tempfile.TemporaryDirectory() as name:
        run = Run.create(Path(name) / "run", {"name": "guards", "recipe": {}, "inputs": {}, "seed": 0})
        watching = monitors(GuardSettings(), source=source, settings=settings, schedule_steps=steps)
        holder: list[Trainer] = []
        switch = Switch(holder, HookSet(()), HookSet(()))
        switch.on, switch.off = HookSet((*watching, switch)), HookSet((switch,))
        trainer = Trainer(model, source, settings, run, hooks=(switch,))
        holder.append(trainer)
        trainer.fit()
    ratios = sorted(on / off for on, off in zip(switch.times[True], switch.times[False], strict=False))
    rng = random.Random(0)
    means = sorted(median([rng.choice(ratios) for _ in ratios]) for _ in range(2000))
    bench.figure("parameters", model.n_parameters())
    bench.figure("pairs of blocks", len(ratios), ">= 20" if not QUICK else "")
    bench.figure("median ratio of processor time", median(ratios), "<= 1.02")
    bench.figure("its upper bound (bootstrap, 95 %)", means[round(0.975 * len(means)) - 1], "<= 1.03")
    bench.finish()


def median(values: list[float]) -> float:
    """The middle value."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


if __name__ == "__main__":
    main()
