"""Muon: momentum whose matrix update is made nearly orthogonal (Jordan et al. 2024, kellerjordan.github.io/posts/muon).

The orthogonalisation is a short Newton–Schulz iteration with the quintic of that page. On matrices longer than wide it runs on the Gram
matrix of the short side: with G = X Xᵀ every iterate is a polynomial of G times X, so that each step costs products of the short side only
and the long side is multiplied twice in all. Few steps are enough: singular values land in about [0.3, 1.2], and a cheap step learns more
per second on a processor than an exact one (docs/measured/defaults.md). Where the model's weights are bfloat16 so are the products, as on that
page: an update 2 % off its exact value, four times as soon where the processor multiplies bfloat16 (docs/measured/log.md, session 8).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from umsicht.train.reduction import local

Exchange = Callable[[Sequence[int], list[Tensor], int], list[Tensor]]
"""`exchange(indices, parts, steps)`: this rank's parts of the orthogonalised matrices, given its parts of the updates of matrices `indices`."""

# Coefficients of the quintic a·x + b·x³ + c·x⁵ from the page above: steep at zero, bounded near one.
QUINTIC = (3.4445, -4.7750, 2.0315)
EPSILON = 1e-7


def orthogonalise(matrices: Tensor, steps: int) -> Tensor:
    """Nearly orthogonal factors of a stack of matrices.

    `matrices` is `[n, rows, columns]`; the result has the same shape and type, and the singular vectors of the input with singular
    values near 1. A zero matrix stays zero.
    """
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    norm = torch.linalg.vector_norm(
        x, dim=(1, 2), dtype=torch.promote_types(x.dtype, torch.float32)
    ).clamp_min(EPSILON)
    x = (x / norm[:, None, None]).to(x.dtype)
    # In products of the short side: s·(2r + 1) plainly, 2r + 4s - 3 by the Gram matrix; equal at r = 1.5 whatever s.
    long = x.shape[-1] > 1.5 * x.shape[-2]
    result = _by_gram(x, steps) if long else _plainly(x, steps)
    return result.mT if tall else result


def _polynomial(gram: Tensor) -> Tensor:
    """a·I + b·G + c·G², so that the next iterate is this times X."""
    a, b, c = QUINTIC
    polynomial = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
    polynomial.diagonal(dim1=-2, dim2=-1).add_(a)
    return polynomial


def _plainly(x: Tensor, steps: int) -> Tensor:
    for _ in range(steps):
        x = _polynomial(x @ x.mT) @ x
    return x


def _by_gram(x: Tensor, steps: int) -> Tensor:
    gram = x @ x.mT
    factor = polynomial = _polynomial(gram)
    for _ in range(steps - 1):
        gram = polynomial @ gram @ polynomial
        polynomial = _polynomial(gram)
        factor = polynomial @ factor
    return factor @ x


class Muon:
    """Momentum and orthogonalised updates of a list of matrices; decoupled weight decay.

    Momentum and decay are local to each element and in float32; only the orthogonalisation needs whole matrices, and multiplies them as
    `products`. Where they lie on several ranks, `exchange` brings each to one owner, which computes, and hands the parts back
    (`umsicht.train.layouts.owners`).
    """

    def __init__(
        self,
        parameters: list[torch.nn.Parameter],
        *,
        momentum: float,
        steps: int,
        weight_decay: float,
        products: torch.dtype = torch.float32,
        exchange: Exchange | None = None,
    ) -> None:
        self._parameters = parameters
        self._momentum = momentum
        self._steps = steps
        self._weight_decay = weight_decay
        self._products = products
        self._exchange = exchange
        self.buffers = [torch.zeros_like(p, dtype=torch.float32) for p in parameters]
        shapes: dict[tuple[int, ...], list[int]] = {}
        for index, parameter in enumerate(parameters):
            shapes.setdefault(tuple(parameter.shape), []).append(index)
        self._by_shape = list(shapes.values())

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """One update at learning rate `rate`; parameters without a gradient stay where they are."""
        if self._exchange is not None:
            live = [i for i, p in enumerate(self._parameters) if p.grad is not None]
            self._apply(live, self._exchange(live, self._nesterov(live), self._steps), rate)
            return
        for indices in self._by_shape:
            live = [i for i in indices if self._parameters[i].grad is not None]
            if live:
                self._apply(live, orthogonalise(torch.stack(self._nesterov(live)), self._steps), rate)

    def _apply(self, live: list[int], updates: Sequence[Tensor] | Tensor, rate: float) -> None:
        for index, update in zip(live, updates, strict=True):
            rows, columns = self._parameters[index].shape
            scale = max(1.0, rows / columns) ** 0.5
            parameter = local(self._parameters[index])
            if self._weight_decay:
                parameter.mul_(1.0 - rate * self._weight_decay)
            parameter.add_(update.to(parameter.dtype), alpha=-rate * scale)

    def _nesterov(self, indices: list[int]) -> list[Tensor]:
        gradients = [local(self._parameters[i].grad).float() for i in indices]  # type: ignore[arg-type]  # live ones have one
        buffers = [local(self.buffers[i]) for i in indices]
        torch._foreach_lerp_(buffers, gradients, 1.0 - self._momentum)
        updates = torch._foreach_lerp(gradients, buffers, self._momentum)
        return [update.to(self._products) for update in updates]
