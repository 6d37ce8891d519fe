"""Two processes in a loop that is not Umsicht's, each with `guard.watch` in one folder, and what can go wrong between them.

As a program: `python -m torch.distributed.run … bench/faults/ranks_watched.py FOLDER PLANT`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STEPS = 8


def findings(folder: Path, plant: str) -> list[Any]:
    """What rank 0's monitor wrote."""
    from umsicht.findings import Finding
    from umsicht.record.run import read_jsonl

    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", __file__]
    done = subprocess.run(
        [*command, str(folder / "watched"), plant],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(root)},
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    path = folder / "watched" / "findings.jsonl"
    return [Finding.from_dict(one) for one in read_jsonl(path)] if path.exists() else []


def averaged(model: Any, world: int, skip: Iterable[str] = ()) -> None:
    """Add up gradients by hand, but for some tensors."""
    from torch import distributed

    for name, parameter in model.named_parameters():
        if name not in skip:
            distributed.all_reduce(parameter.grad)
            parameter.grad /= world


@dataclass(frozen=True)
class Plan:
    """How a loop of several processes is put together. `rows`: (step, rank, world) → seed of the batch, or row numbers of a small set."""

    wraps: str = "ddp"
    exchange: Callable[[Any, int], None] = lambda model, world: None
    rows: str = "apart"
    calls_inside: bool = False


PLANS = {
    "healthy": Plan(),
    "healthy-by-hand": Plan("", averaged),
    "healthy-parted": Plan("fsdp"),
    "never-wrapped": Plan(""),
    "wrapper-bypassed": Plan(calls_inside=True),
    "one-tensor-not-reduced": Plan("", lambda model, world: averaged(model, world, ("lm_head.weight",))),
    "same-batches": Plan(rows="same"),
    "other-order": Plan(rows="own-order"),
}


def ids_of(plan: Plan, step: int, rank: int, world: int) -> Any:
    """Four rows."""
    import torch

    from bench.faults.cases.foreign import rows

    if plan.rows == "same":
        return rows(4, step)
    if plan.rows == "own-order":
        order = torch.randperm(64, generator=torch.Generator().manual_seed(rank))
        return rows(64, 5)[order[rank::world][4 * step : 4 * step + 4]]
    return rows(4, step * world + rank)


def wrapped(model: Any, plan: Plan) -> Any:
    """The model as the processes share it."""
    if plan.wraps == "ddp":
        from torch.nn.parallel import DistributedDataParallel

        return DistributedDataParallel(model)
    if plan.wraps == "fsdp":
        from torch.distributed.fsdp import fully_shard

        for block in model.blocks:
            fully_shard(block)
        return fully_shard(model)
    return model


def main(folder: str, plant: str) -> None:
    """Train a few steps."""
    import torch
    from torch import distributed

    from bench.faults.cases.foreign import Small, loss
    from umsicht.guard import watch

    distributed.init_process_group("gloo")
    rank, world, plan = distributed.get_rank(), distributed.get_world_size(), PLANS[plant]
    model = wrapped(Small(), plan)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with watch(folder, model, optimizer) as monitor:
        for step in range(STEPS):
            ids = ids_of(plan, step, rank, world)
            optimizer.zero_grad()
            value = loss((model.module if plan.calls_inside else model)(ids), ids)
            value.backward()
            plan.exchange(model, world)
            optimizer.step()
            monitor.step(value)
        distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
