"""Two real ranks of a small training, started by torchrun, with a fault of distributed training planted in one of them.

As a program: `python -m torch.distributed.run … bench/faults/ranks.py FOLDER PLANT STRENGTH`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

STEPS = 16
NUMBERS_AT = 12


def findings(folder: Path, plant: str, strength: str) -> list[Any]:
    """What a run of two ranks with this fault wrote into its record."""
    from umsicht.findings import Finding
    from umsicht.record import Run

    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", __file__]
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(root)}
    done = subprocess.run(
        [*command, str(folder / "run"), plant, strength],
        capture_output=True,
        text=True,
        timeout=600,
        env=environment,
        check=False,
    )
    run = Run.open(folder / "run")
    if done.returncode or "outcome" not in run.manifest:
        raise RuntimeError(done.stderr[-2000:])
    return [Finding.from_dict(one) for one in run.findings()]


class Source:
    """Random ids that repeat within a row, so that there is something to learn."""

    rows, seq = 8, 32
    tokens_per_batch = rows * seq

    def batch(self, step: int) -> Any:
        import torch

        from umsicht.tokens.batch import Batch

        ids = torch.randint(0, 61, (self.rows, 9), generator=torch.Generator().manual_seed(step)).repeat(1, 4)
        return Batch(
            ids[:, : self.seq].clone(),
            ids[:, 1 : self.seq + 1].clone(),
            torch.zeros(self.rows, self.seq, dtype=torch.int32),
            torch.arange(self.rows) + step * self.rows,
        )

    def micro_batches(self, step: int, rows: int, rank: int = 0, world: int = 1) -> Iterator[Any]:
        part = self.rows // world
        for start in range(rank * part, (rank + 1) * part, rows):
            yield self.batch(step).slice(start, min(start + rows, (rank + 1) * part))

    def epoch(self, step: int) -> float:
        return step / 1000

    def state(self) -> dict[str, Any]:
        return {"rows": self.rows}


def main(folder: Path, plant: str, strength: str) -> None:
    """One rank."""
    from umsicht.model import ModelConfig, build
    from umsicht.recipe.parallel import ParallelSettings
    from umsicht.recipe.train import TrainSettings
    from umsicht.record import Run
    from umsicht.train import Trainer
    from umsicht.train.parallel import layout_of
    from umsicht.train.ranks import join, leave

    config = ModelConfig(
        family="qwen3", n_tokens=61, vocab_size=128, d_model=32, n_layers=2, n_heads=2, n_kv_heads=2, head_dim=16, d_ff=64, seq_len=32
    )  # fmt: skip
    settings = TrainSettings.model_validate(
        {
            "budget": {"steps": STEPS},
            "global_batch_tokens": Source.tokens_per_batch,
            "micro_batch": 4,
            "device": "cpu",
            "precision": "float32",
            "compile": "off",
            "checkpoint": {"every_steps": 10, "every_minutes": None},
        }
    )
    ranks = join(120.0)
    if ranks.is_first:
        Run.create(folder, {"name": "ranks", "recipe": {}, "inputs": {}, "seed": 0})
    ranks.barrier()
    layout = layout_of(ParallelSettings(check_every=4), ranks)
    PLANTS[plant](layout, strength == "loud", ranks.rank)
    Trainer(build(config, 1), Source(), settings, Run.open(folder), reduction=layout).fit()
    leave()


def not_reduced(layout: Any, loud: bool, rank: int) -> None:
    """DI1: the exchange leaves out every gradient, or only that of the last norm."""
    real = layout.gradients

    def gradients(parameters: Any) -> None:
        kept = [] if loud else [p for p in parameters if p.shape != (32,)]
        left = [p for p in parameters if all(p is not k for k in kept)]
        real(kept if loud else [p for p in parameters if p is not left[-1]])

    layout.gradients = gradients


def scaled_on_one(layout: Any, loud: bool, rank: int) -> None:
    """DI2: one rank scales the gradients of the norms: by half, or one of them by a thousandth."""
    real = layout.gradients

    def gradients(parameters: Any) -> None:
        real(parameters)
        norms = [p for p in parameters if p.ndim == 1]
        if rank == 0:
            for norm in norms if loud else norms[:1]:
                norm.grad.mul_(0.5 if loud else 0.999)

    layout.gradients = gradients


def flipped_bit(layout: Any, loud: bool, rank: int) -> None:
    """DI3: from step 5 on one rank's arithmetic flips a bit of a gradient: the highest of the exponent, or one in the middle of the mantissa."""
    import torch

    real, seen = layout.gradients, [0]

    def gradients(parameters: Any) -> None:
        real(parameters)
        seen[0] += 1
        if rank == 1 and seen[0] == 5:
            bits = parameters[0].grad.view(torch.int32).reshape(-1)
            bits[7] ^= 1 << (30 if loud else 12)

    layout.gradients = gradients


def lossy_exchange(layout: Any, loud: bool, rank: int) -> None:
    """DI4: exchanges of large tensors arrive with one percent of their elements zero on one rank, or with a single one."""
    import torch.distributed as dist

    real = dist.all_to_all_single

    def lossy(output: Any, *rest: Any, **named: Any) -> Any:
        done = real(output, *rest, **named)
        if rank == 1 and output.numel() > 1000:
            flat = output.view(-1)
            if loud:
                flat[::100] = 0
            else:
                flat[output.numel() // 2] = 0
        return done

    dist.all_to_all_single = lossy


def not_finite(layout: Any, loud: bool, rank: int) -> None:
    """DI5: one rank's gradient is NaN at one step; faint: one element of one tensor is infinite."""
    real, seen = layout.gradients, [0]

    def gradients(parameters: Any) -> None:
        seen[0] += 1
        if rank == 1 and seen[0] == NUMBERS_AT:
            if loud:
                parameters[0].grad.fill_(float("nan"))
            else:
                parameters[-1].grad.view(-1)[0] = float("inf")
        real(parameters)

    layout.gradients = gradients


PLANTS = {
    "DI1": not_reduced,
    "DI2": scaled_on_one,
    "DI3": flipped_bit,
    "DI4": lossy_exchange,
    "DI5": not_finite,
    "none": lambda *_: None,
}


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
