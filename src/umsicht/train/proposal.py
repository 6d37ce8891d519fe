"""`parallel: auto`: the simplest layout whose step fits into the memory of each process, and why.

Replicas first: they exchange once a step. Where the model is too large for that, its weights, gradients and optimizer state are sharded among as
few processes as possible; where a layer's own tensors are still too large, matrices are split inside a machine as well. What a step needs is
counted on tensors without storage (`umsicht.train.memory`); what the division leaves of it is arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from umsicht.findings import UserError
from umsicht.model import ModelConfig
from umsicht.recipe.parallel import ParallelSettings
from umsicht.recipe.train import TrainSettings
from umsicht.train.memory import StepBytes, step_bytes
from umsicht.words import numerals, t

MARGIN = 1.25
"""Beyond what is counted: buffers of exchanges, what the allocator holds."""


@dataclass(frozen=True)
class Proposal:
    """A layout, bytes a process needs in it and has, and the reason in words."""

    settings: ParallelSettings
    needed_bytes: int
    available_bytes: int
    reason: str


def needed(counted: StepBytes, config: ModelConfig, *, shard: int, tensor: int) -> int:
    """Bytes of a process's step when weights, gradients and optimizer state are divided by `shard · tensor` and activations by `tensor`.

    A sharded layout also holds one block and both vocabulary tables whole while it computes with them, and their gradients.
    """
    held = (counted.state + counted.gradients) // (shard * tensor)
    activations = max(0, counted.computing - counted.state - counted.gradients) // tensor
    block = 4 * config.d_model * config.q_dim + 3 * config.d_model * config.d_ff
    whole = block + 2 * config.vocab_size * config.d_model
    gathered = 2 * 4 * whole // tensor if shard > 1 else 0
    return int(MARGIN * (held + activations + gathered))


def candidates(world: int, local_world: int, config: ModelConfig) -> Iterator[tuple[int, int]]:
    """(shard, tensor) in the order they are tried: none, more and more shards, then tensor inside a machine as well."""
    for tensor in range(1, local_world + 1):
        divides = all(
            size % tensor == 0 for size in (config.n_heads, config.n_kv_heads, config.d_ff, config.vocab_size)
        )
        if world % tensor or local_world % tensor or not divides or (tensor > 1 and config.lora):
            continue
        for shard in range(1, world // tensor + 1):
            if (world // tensor) % shard == 0 and (tensor == 1 or shard == world // tensor):
                yield shard, tensor


def propose(
    config: ModelConfig,
    train: TrainSettings,
    micro_batch: int,
    *,
    world: int,
    local_world: int,
    available: int,
    precision: str = "float32",
) -> Proposal:
    """The first layout that fits into `available` bytes a process. Raises UserError with the figures where none does."""
    counted = step_bytes(config, train, micro_batch, precision=precision)
    whole = needed(counted, config, shard=1, tensor=1)
    least = whole
    for shard, tensor in candidates(world, local_world, config):
        size = needed(counted, config, shard=shard, tensor=tensor)
        least = min(least, size)
        if size > available:
            continue
        data = world // (shard * tensor)
        figures: dict[str, Any] = {
            "whole": f"{whole / 1e9:.2f}",
            "needed": f"{size / 1e9:.2f}",
            "available": f"{available / 1e9:.2f}",
        }
        kind = "replicas" if shard * tensor == 1 else "sharded" if tensor == 1 else "split"
        settings = ParallelSettings(data=data, shard=shard, tensor=tensor)
        reason = t(f"train.proposed_{kind}", data=data, shard=shard, tensor=tensor, **figures)
        return Proposal(settings, size, available, reason)
    raise UserError(
        t(
            "train.nothing_fits",
            least=numerals(f"{least / 1e9:.2f}"),
            available=numerals(f"{available / 1e9:.2f}"),
            world=world,
        ),
        where="parallel: auto",
        fix=t("train.nothing_fits_fix"),
    )
