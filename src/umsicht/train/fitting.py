"""Does a step fit into this machine's memory? Asked before the first step; the answer names the largest micro-batch that does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from umsicht.findings import UserError
from umsicht.model import ModelConfig
from umsicht.recipe.train import TrainSettings
from umsicht.train.machine import Machine
from umsicht.train.resident import available_bytes
from umsicht.words import t

MARGIN = 1.15
"""What the allocator holds beyond the tensors (docs/measured/plan.md), so that a step that fits on paper fits."""
SURELY = 4
"""A rough estimate this many times smaller than what is free needs no closer look."""


def fitted(machine: Machine, model: Any, settings: TrainSettings, *, rows: int, seq_len: int) -> Machine:
    """`machine`, its micro-batch made smaller where the recipe left it open and memory is short.

    Raises UserError where the recipe's own micro-batch, or a single row, does not fit. Models that are not ours are let pass.
    """
    config = getattr(model, "config", None)
    available = available_bytes(machine.device)
    if not isinstance(config, ModelConfig) or available is None:
        return machine
    if SURELY * rough_bytes(config, machine.micro_batch, seq_len) < available:
        return machine
    from umsicht.train.memory import largest_micro_batch, step_bytes

    # A masked attention kernel and compiled code need other memory than the plain step; the margin covers them.
    def needed(micro_batch: int) -> float:
        counted = step_bytes(
            config,
            settings,
            micro_batch,
            precision=machine.precision,
            accumulates=rows > micro_batch,
            seq_len=seq_len,
        )
        return MARGIN * counted.peak

    if needed(machine.micro_batch) <= available:
        return machine
    largest = largest_micro_batch(rows, lambda n: needed(n) <= available)
    if settings.micro_batch is None and largest is not None:
        return replace(machine, micro_batch=largest)
    raise _too_large(machine.micro_batch, needed(machine.micro_batch), available, largest)


def rough_bytes(config: ModelConfig, micro_batch: int, seq_len: int) -> int:
    """Size of a step to within a small factor, at no cost: five copies of the weights, and a dozen streams a layer."""
    body = config.n_layers * (4 * config.d_model * config.q_dim + 3 * config.d_model * config.d_ff)
    weights = body + 2 * config.vocab_size * config.d_model
    streams = config.n_layers * (12 * config.d_model + 4 * config.d_ff) + 8 * config.d_model
    return 4 * (5 * weights + micro_batch * seq_len * streams)


def _too_large(micro_batch: int, needed: float, available: int, largest: int | None) -> UserError:
    def said(key: str) -> str:
        return t(
            key, micro_batch=micro_batch, needed=f"{needed / 1e9:.2f}", available=f"{available / 1e9:.2f}"
        )

    if largest is None:
        return UserError(
            said("train.row_too_large"),
            where="model, train.micro_batch",
            why=t("train.batch_too_large_why"),
            fix=t("train.row_too_large_fix"),
        )
    return UserError(
        said("train.batch_too_large"),
        where="train.micro_batch",
        why=t("train.batch_too_large_why"),
        fix=t("train.batch_too_large_fix", largest=largest),
    )
