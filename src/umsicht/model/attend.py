"""Causal attention by whole products, for bfloat16 on a processor and short rows.

PyTorch's fused kernel works in tiles and takes three times as long there, most of it in its backward pass (docs/measured/log.md, session 8). Rows of
up to `LONGEST` tokens are a few large products and two passes over the weights instead; beyond that the half of the scores that is thrown away costs
more than the tiles do, and `[batch, heads, seq, seq]` would not fit a cache. Scores are rounded to bfloat16 before the softmax: for models that bound
them by normalising queries and keys.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from .fused import KINDS

LONGEST = 512
"""Tokens of the longest row for which the products win."""


def suits(query: Tensor, key: Tensor) -> bool:
    """True where `causal` is the faster form: bfloat16 on a processor, whole rows, short ones."""
    return (
        query.device.type == "cpu"
        and query.dtype == torch.bfloat16
        and type(query).__name__ in KINDS
        and query.shape == key.shape
        and query.shape[-2] <= LONGEST
    )


def causal(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Softmax of `query · keyᵀ / √head_dim` over the positions up to one's own, times `value`; all `[batch, heads, seq, head_dim]`, in bfloat16."""
    length = query.shape[-2]
    later = torch.full((length, length), -math.inf, dtype=query.dtype).triu_(1)
    out: Tensor = _Causal.apply(query, key, value, later)  # type: ignore[no-untyped-call]  # torch's apply
    return out


class _Causal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, later: Tensor) -> Tensor:
        q, k, v = (x.flatten(0, 1) for x in (query, key, value))
        scale = q.shape[-1] ** -0.5
        with torch.autocast("cpu", enabled=False):
            weights = torch.baddbmm(later, q, k.transpose(1, 2), alpha=scale).softmax(-1)
            mixed = torch.bmm(weights, v)
        ctx.save_for_backward(q, k, v, weights)
        return mixed.view(query.shape)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        q, k, v, weights = ctx.saved_tensors
        scale = q.shape[-1] ** -0.5
        g = gradient.flatten(0, 1)
        grad_v = torch.bmm(weights.transpose(1, 2), g)
        grad_weights = torch.bmm(g, v.transpose(1, 2))
        slope = torch._softmax_backward_data(grad_weights, weights, -1, weights.dtype)
        grad_q = torch.baddbmm(q, slope, k, beta=0, alpha=scale)
        grad_k = torch.baddbmm(q, slope.transpose(1, 2), q, beta=0, alpha=scale)
        shape = gradient.shape
        return grad_q.view(shape), grad_k.view(shape), grad_v.view(shape), None
