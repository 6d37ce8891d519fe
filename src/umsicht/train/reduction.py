"""Where the loop meets other ranks. One process is `ALONE`; parallel layouts give their own, and the loop does not change.

Every decision that changes the run (skip, stop, clip, save) passes through here, so that no rank decides for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn


class Reduction(Protocol):
    """What the loop asks of a layout. All methods are collective: every rank calls them in the same order."""

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

    def total(self, value: Tensor) -> Tensor:
        """Sum over the ranks that hold different data."""
        ...

    def any(self, flag: bool) -> bool:
        """True where the flag is set on any rank."""
        ...

    def gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Sum gradients over data ranks in place, in the order given: a restart then adds in the same order."""
        ...

    def gradient_norm(self, parameters: Sequence[nn.Parameter]) -> Tensor:
        """L2 norm of the whole gradient, float32 scalar."""
        ...


class Alone:
    """One process: every reduction is the identity."""

    rank = 0
    world = 1
    is_writer = True

    def total(self, value: Tensor) -> Tensor:
        return value

    def any(self, flag: bool) -> bool:
        return flag

    def gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        return None

    def gradient_norm(self, parameters: Sequence[nn.Parameter]) -> Tensor:
        gradients = [p.grad for p in parameters if p.grad is not None]
        if not gradients:
            return torch.zeros(())
        norms = torch._foreach_norm(gradients, 2, dtype=torch.float32)
        norm: Tensor = torch.linalg.vector_norm(torch.stack(norms))
        return norm


ALONE = Alone()


@torch.no_grad()
def clip(parameters: Sequence[nn.Parameter], norm: float, limit: float | None) -> bool:
    """Scale gradients so that their norm is min(norm, limit), once a step and after the whole batch; True where it scaled."""
    if limit is None or norm <= limit:
        return False
    gradients = [p.grad for p in parameters if p.grad is not None]
    torch._foreach_mul_(gradients, limit / norm)
    return True
