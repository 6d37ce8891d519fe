"""Layouts in which every process holds the whole model, and the simplest of them: one process, where every reduction is the identity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from umsicht.tokens.batch import Batch
from umsicht.train.hooks import View
from umsicht.train.objective import Objective
from umsicht.train.ranks import ONE
from umsicht.train.saver import Saver


class WholeModel:
    """What a process does that holds the whole model, whatever the others do."""

    is_split = False
    speaks = True

    def place(self, model: nn.Module) -> nn.Module:
        return model

    def fit_objective(self, objective: Objective) -> Objective:
        return objective

    def backward(
        self,
        model: nn.Module,
        objective: Objective,
        batches: Sequence[Batch],
        count: int,
        device: torch.device,
    ) -> Tensor:
        nats = torch.zeros((), dtype=torch.float32, device=device)
        for batch in batches:
            sums = objective(model, batch.to(device))
            (sums.objective / max(1, count)).backward()  # type: ignore[no-untyped-call]  # untyped in torch
            nats += sums.nats
        return nats

    def gradient_norm(self, parameters: Sequence[nn.Parameter]) -> Tensor:
        gradients = [p.grad for p in parameters if p.grad is not None]
        if not gradients:
            return torch.zeros(())
        norms = torch._foreach_norm(gradients, 2, dtype=torch.float32)
        norm: Tensor = torch.linalg.vector_norm(torch.stack(norms))
        return norm

    def view_type(self) -> Any:
        return View

    def saver(self, run: Any, settings: Any, progress: Any) -> Any:
        return Saver(run, settings, progress)


class Alone(WholeModel):
    """One process: every reduction is the identity."""

    ranks = ONE
    rank = 0
    world = 1
    is_writer = True
    check_every = 0

    def total(self, value: Tensor) -> Tensor:
        return value

    def any(self, flag: bool) -> bool:
        return flag

    def gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        return None

    def orthogonaliser(self, parameters: Sequence[nn.Parameter]) -> Callable[..., Any] | None:
        return None


ALONE = Alone()
