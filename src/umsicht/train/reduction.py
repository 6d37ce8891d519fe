"""Where the loop meets other ranks. One process is `ALONE`; parallel layouts give their own, and the loop does not change.

Every decision that changes the run (skip, stop, clip, save) passes through here, so that no rank decides for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from umsicht.tokens.batch import Batch
from umsicht.train.objective import Objective
from umsicht.train.ranks import Ranks


class Reduction(Protocol):
    """What the loop asks of a layout. All methods are collective: every rank calls them in the same order."""

    ranks: Ranks

    @property
    def rank(self) -> int:
        """Which part of each global batch is ours."""
        ...

    @property
    def world(self) -> int:
        """Into how many parts a global batch is split."""
        ...

    @property
    def is_writer(self) -> bool:
        """True on the one rank that writes record and progress."""
        ...

    @property
    def is_split(self) -> bool:
        """True where no process holds the whole model: hooks then see a gathered copy, checkpoints are sharded."""
        ...

    @property
    def speaks(self) -> bool:
        """True on one rank of each replica: the one that counts for it."""
        ...

    @property
    def check_every(self) -> int:
        """Steps between comparisons of weights and samples across ranks; 0: never."""
        ...

    def total(self, value: Tensor) -> Tensor:
        """Sum over the ranks that hold different data."""
        ...

    def any(self, flag: bool) -> bool:
        """True where the flag is set on any rank."""
        ...

    def place(self, model: nn.Module) -> nn.Module:
        """The model as this layout computes it, weights unchanged."""
        ...

    def fit_objective(self, objective: Objective) -> Objective:
        """The objective as this layout computes it."""
        ...

    def backward(
        self,
        model: nn.Module,
        objective: Objective,
        batches: Sequence[Batch],
        count: int,
        device: torch.device,
    ) -> Tensor:
        """Forward and backward over this rank's micro-batches, each objective divided by `count`; returns their summed nats."""
        ...

    def gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Sum gradients over data ranks in place, in the order given: a restart then adds in the same order."""
        ...

    def gradient_norm(self, parameters: Sequence[nn.Parameter]) -> Tensor:
        """L2 norm of the whole gradient, float32 scalar."""
        ...

    def orthogonaliser(self, parameters: Sequence[nn.Parameter]) -> Callable[..., Any] | None:
        """How Muon gets at whole matrices of these parameters; None where each process works on its own."""
        ...

    def view_type(self) -> Any:
        """Makes the `View` that hooks get."""
        ...

    def saver(self, run: Any, settings: Any, progress: Any) -> Any:
        """Who writes this layout's checkpoints."""
        ...


@torch.no_grad()
def clip(parameters: Sequence[nn.Parameter], norm: float, limit: float | None) -> bool:
    """Scale gradients so that their norm is min(norm, limit), once a step and after the whole batch; True where it scaled."""
    if limit is None or norm <= limit:
        return False
    gradients = [local(p.grad) for p in parameters if p.grad is not None]
    torch._foreach_mul_(gradients, limit / norm)
    return True


def local(tensor: Tensor) -> Tensor:
    """This rank's part of a distributed tensor (sharing its memory); any other tensor as it is."""
    part: Tensor = tensor._local_tensor if hasattr(tensor, "_local_tensor") else tensor
    return part
