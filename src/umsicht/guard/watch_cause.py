"""Why a step of a foreign loop is not finite: two replays where a loss and a batch are at hand, else what the weights show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from umsicht.guard.adapt_batch import Example
from umsicht.guard.monitors.nonfinite import Facts, Replay, cause_of, replay
from umsicht.guard.subject import random_state, restore_random_state


def replays(
    model: nn.Module,
    loss: Callable[[nn.Module, Any], torch.Tensor] | None,
    batch: Any,
    seed: int,
    value: float,
) -> tuple[Replay, Replay]:
    """The step twice over, from the same random state, which is left as it was; `value` is the loss that was seen."""
    if loss is None or batch is None:
        seen = _as_it_stands(model, value)
        return seen, seen
    computed = loss

    def compute() -> torch.Tensor:
        torch.manual_seed(seed)
        return computed(model, batch)

    state = random_state()
    first, second = replay(model, compute), replay(model, compute)
    restore_random_state(state)
    return first, second


def _as_it_stands(model: nn.Module, value: float) -> Replay:
    named = list(model.named_parameters())
    return Replay(
        loss=value,
        parameters=[name for name, p in named if not bool(torch.isfinite(p).all())],
        gradients=[
            name for name, p in named if p.grad is not None and not bool(torch.isfinite(p.grad).all())
        ],
    )


def cause_and_place(
    model: nn.Module, first: Replay, second: Replay, example: Example | None
) -> tuple[str, str]:
    """The finding's slug in `NUMERIC/…`, and where it was seen."""
    rows = max((m.num_embeddings for m in model.modules() if isinstance(m, nn.Embedding)), default=0)
    ids = example.ids if example is not None else None
    labels = example.labels if example is not None else None
    return cause_of(first, second, Facts(ids, labels, rows))
