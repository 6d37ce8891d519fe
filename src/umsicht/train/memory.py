"""Memory of a training step, counted by running the step itself on tensors without storage.

Weights, gradients, optimizer state, what the forward pass keeps, what the backward pass and the optimizer need in between: every tensor of a real
step is created, and what is alive at the same time is added up. Nothing is estimated by a formula that ages with the code.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from umsicht.model import ModelConfig, Transformer
from umsicht.model.lora import freeze_base
from umsicht.recipe.train import TrainSettings
from umsicht.score.loss import active_loss_sum
from umsicht.train.alone import ALONE
from umsicht.train.optimizer import Optimizer
from umsicht.train.reduction import clip

CHUNK_ROWS = 256


@dataclass(frozen=True)
class StepBytes:
    """Bytes alive at the same time. `state`: weights and optimizer; `gradients`; `computing`: most while a gradient is computed; `moving`: most while
    the weights move."""

    state: int
    gradients: int
    computing: int
    moving: int

    @property
    def peak(self) -> int:
        """The larger of both moments."""
        return max(self.computing, self.moving)


class Living(TorchDispatchMode):  # type: ignore[no-untyped-call]  # untyped in torch
    """Adds up the storages that are alive; `peak` is the most there was since `mark`."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # untyped in torch
        self.now = 0
        self.peak = 0
        self._known: set[int] = set()

    def mark(self) -> int:
        """Begin a new peak; bytes alive now."""
        self.peak = self.now
        return self.now

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        tree_map_only(Tensor, self._note, result)
        return result

    def _note(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._known:
            return
        size = storage.nbytes()
        self._known.add(key)
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._gone, key, size)

    def _gone(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.now -= size


def step_bytes(
    config: ModelConfig,
    settings: TrainSettings,
    micro_batch: int,
    *,
    precision: str = "float32",
    accumulates: bool = False,
    seq_len: int | None = None,
) -> StepBytes:
    """Count one step of `micro_batch` rows. With `accumulates`, a second micro-batch is computed while the first one's gradients are there.

    `precision` is `float32`, `bfloat16` (weights, float32 masters) or `autocast`.
    """
    living = Living()
    length = seq_len or config.seq_len
    with FakeTensorMode(), living:
        model = _model(config, precision)
        optimizer = Optimizer(model, settings.optimizer)
        state = living.mark()
        ids = torch.zeros(micro_batch, length, dtype=torch.long)
        for _ in range(2 if accumulates else 1):
            _gradient(model, ids, precision)
        computing = living.peak
        gradients = sum(p.grad.nbytes for p in optimizer.parameters if p.grad is not None)
        living.mark()
        ALONE.gradient_norm(optimizer.parameters)
        clip(optimizer.parameters, 2.0, 1.0)
        optimizer.step(1.0)
        moving = living.peak
    return StepBytes(state, gradients, computing, moving)


def _gradient(model: Transformer, ids: Tensor, precision: str) -> None:
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "autocast"):
        objective = active_loss_sum(
            model.hidden(ids).reshape(-1, model.config.d_model),
            model.head_weight,
            ids.reshape(-1),
            softcap=model.config.softcap,
            chunk_rows=CHUNK_ROWS,
        ).objective
    (objective / 2.0).backward()  # type: ignore[no-untyped-call]  # untyped in torch


def _model(config: ModelConfig, precision: str) -> Transformer:
    model = Transformer(config)
    if config.lora is not None:
        freeze_base(model)
    if precision == "bfloat16":
        for parameter in model.parameters():
            if parameter.ndim:
                parameter.data = parameter.data.to(torch.bfloat16)
    return model


def largest_micro_batch(rows: int, fits: Callable[[int], bool]) -> int | None:
    """The largest divisor of `rows` for which `fits` holds; None where not even one row does. Asks as few times as a bisection."""
    divisors = [n for n in range(1, rows + 1) if rows % n == 0]
    low, high = 0, len(divisors)
    while low < high:
        middle = (low + high) // 2
        if fits(divisors[middle]):
            low = middle + 1
        else:
            high = middle
    return divisors[low - 1] if low else None
