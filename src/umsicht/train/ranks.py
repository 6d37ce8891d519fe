"""The processes of one job: who we are, who waits for whom. torchrun starts them, or anything that sets its variables.

Only this file opens a process group. Everything exchanged for a decision is added or read in rank order, so that every rank comes to the same
bits and a restart to those of the run before it.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from umsicht.findings import UserError
from umsicht.train.clock import communicating
from umsicht.words import t


@dataclass(frozen=True)
class Ranks:
    """This process among all. `local_world` counts those of this machine. Methods are collective: every rank calls them in the same order."""

    rank: int = 0
    world: int = 1
    local_world: int = 1
    store: Any = field(default=None, compare=False, repr=False)

    @property
    def is_first(self) -> bool:
        """True on the one rank that writes record and progress."""
        return self.rank == 0

    @property
    def host(self) -> str:
        """Name of this machine, for messages."""
        return socket.gethostname()

    def gather(self, value: Any) -> list[Any]:
        """The value of every rank, in rank order; any picklable object."""
        if self.world == 1:
            return [value]
        values: list[Any] = [None] * self.world
        with communicating():
            dist.all_gather_object(values, value)
        return values

    def first(self, value: Any) -> Any:
        """Rank 0's value, on every rank."""
        if self.world == 1:
            return value
        box = [value]
        with communicating():
            dist.broadcast_object_list(box, src=0)
        return box[0]

    def sum(self, values: Tensor) -> Tensor:
        """Sum over all ranks, added in rank order; the same bits everywhere."""
        return values if self.world == 1 else ordered_sum(values, None, self.world)

    def table(self, values: Tensor) -> Tensor:
        """The numbers of every rank, `[world, …]`, in rank order."""
        if self.world == 1:
            return values[None]
        return torch.stack(gathered(values, None, self.world))

    def any(self, flag: bool) -> bool:
        """True where the flag is set on any rank."""
        return bool(self.sum(torch.tensor(float(flag), dtype=torch.float64)) > 0)

    def barrier(self) -> None:
        """Wait for all."""
        if self.world > 1:
            with communicating():
                dist.barrier()

    def after_first(self, work: Callable[[], Any]) -> Any:
        """Rank 0 works alone, however long that takes; the others begin when it is done. What it raises ends every rank.

        The wait is on the store and not on a collective, whose timeout is meant for steps.
        """
        if self.world == 1:
            return work()
        key = f"first/{_turn()}"
        if self.is_first:
            try:
                result = work()
            except BaseException as error:
                self.store.set(key, f"failed:{type(error).__name__}")
                raise
            self.store.set(key, "done")
            return result
        _wait(self.store, key)
        said = self.store.get(key).decode()
        if said != "done":
            raise FirstRankFailedError(said.removeprefix("failed:"))
        return work()


class FirstRankFailedError(Exception):
    """Rank 0 could not prepare the run and has said why; the others end quietly."""


ONE = Ranks()
_turns = 0


def _turn() -> int:
    global _turns
    _turns += 1
    return _turns


def _wait(store: Any, key: str) -> None:
    # Not `store.wait`: it warns at every timeout, and a long one cannot be interrupted.
    while not store.check([key]):
        time.sleep(0.2)


def gathered(values: Tensor, group: dist.ProcessGroup | None, world: int) -> list[Tensor]:
    """The tensor of every rank of a group, in rank order."""
    parts = [torch.empty_like(values) for _ in range(world)]
    with communicating():
        dist.all_gather(parts, values.contiguous(), group=group)
    return parts


def ordered_sum(values: Tensor, group: dist.ProcessGroup | None, world: int) -> Tensor:
    """Sum of a small tensor over a group: everybody receives all parts and adds them in rank order."""
    parts = gathered(values, group, world)
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def expected() -> int:
    """How many processes the environment says this job has."""
    value = os.environ.get("WORLD_SIZE", "1")
    return int(value) if value.isdigit() else 1


def join(timeout_s: float, device: str = "cpu") -> Ranks:
    """Meet the other processes of the job; `ONE` where there are none. `UMSICHT_STEP_TIMEOUT_S` overrides the timeout.

    The backend follows from the device (nccl on CUDA, gloo elsewhere); a gloo group for host tensors always exists.
    """
    if expected() <= 1:
        return ONE
    if dist.is_initialized():
        return _as_ranks(dist.distributed_c10d._get_default_store())
    missing = [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if missing:
        raise UserError(t("train.ranks_not_named", name=missing[0]), fix=t("train.ranks_not_named_fix"))
    limit = timedelta(seconds=float(os.environ.get("UMSICHT_STEP_TIMEOUT_S", timeout_s)))
    store, rank, world = next(iter(rendezvous("env://", timeout=timedelta(minutes=5))))
    # A store may outlive a failed attempt: keys of the new one must not meet those of the old.
    fresh = PrefixStore(f"attempt-{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
    backend = "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo"
    dist.init_process_group(backend, store=fresh, rank=rank, world_size=world, timeout=limit)
    if device == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", rank)))
    return _as_ranks(fresh)


def _as_ranks(store: Any) -> Ranks:
    rank, world = dist.get_rank(), dist.get_world_size()
    return Ranks(
        rank,
        world,
        int(os.environ.get("LOCAL_WORLD_SIZE", world)),
        store,
    )


def leave() -> None:
    """Part from the others at an orderly end."""
    if dist.is_initialized():
        dist.destroy_process_group()
