"""Normalisation and rotation in few passes over memory, for a processor.

There every element-wise operation of eager PyTorch is a pass of its own, forward and backward; as autograd writes them, these two cost a tenth of a training
step (docs/measured/log.md, session 4), a quarter where products are in bfloat16 (session 8). Everywhere else (a GPU, autocast, compiled code,
tensors spread over ranks) the plain forms in `layers` are used: they are the definition, and the tests hold value and gradient of these against
them. Both compute in float32 whatever comes in; PyTorch's own kernel sums the gradient of a bfloat16 scale in bfloat16.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

# Tensors spread over ranks have a type of their own, and rules for the plain operations only.
KINDS = ("Tensor", "Parameter", "FakeTensor")
_TYPES = (torch.float32, torch.bfloat16)


def fuses(*tensors: Tensor | None) -> bool:
    """True where the fused forms hold for these tensors, here and now."""
    if torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu"):
        return False
    return all(
        t is None or (t.device.type == "cpu" and t.dtype in _TYPES and type(t).__name__ in KINDS)
        for t in tensors
    )


def rms_norm(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    """`x [..., width]` over the root of its mean square (plus `eps`), times `weight [width]`."""
    scale = None if weight is None else weight.float()
    out: Tensor = _RMSNorm.apply(x.float(), scale, eps)  # type: ignore[no-untyped-call]  # torch's apply
    return out.to(x.dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Each pair (i, i + width / 2) of `x [batch, heads, seq, width]` turned by the angle of `cos` and `sin`, the memory laid out as x's."""
    out: Tensor = _Rotation.apply(x.float(), cos, sin)  # type: ignore[no-untyped-call]  # torch's apply
    return out.to(x.dtype)


class _RMSNorm(torch.autograd.Function):
    """y = w·x·r with r = 1/√(mean(x²) + eps).

    dx = r·w·g − x·r³·mean(w·g·x) is what the kernel for layer normalisation gives for a mean of zero, but for the part −r·mean(w·g) that
    comes from its mean depending on x: that part is added back, a number a row.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
        root = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        scale = root.square_().div_(x.shape[-1]).add_(eps).rsqrt_()
        ctx.save_for_backward(x, weight, scale)
        out: Tensor = x * scale
        return out if weight is None else out.mul_(weight)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, weight, scale = ctx.saved_tensors
        width = x.shape[-1]
        gradient = gradient.contiguous()
        wanted = [ctx.needs_input_grad[0], weight is not None and ctx.needs_input_grad[1], False]
        grad_x, grad_weight, _ = torch.ops.aten.native_layer_norm_backward(
            gradient, x, (width,), torch.zeros_like(scale), scale, weight, None, wanted
        )
        if wanted[0]:
            rows = gradient.view(-1, width)
            along = rows.sum(-1) if weight is None else rows @ weight
            grad_x.add_(along.view(scale.shape).mul_(scale).div_(width))
        return grad_x, grad_weight, None


class _Rotation(torch.autograd.Function):
    """A rotation, whose gradient is the rotation back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        return _turned(x, cos, sin, 1.0)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        cos, sin = ctx.saved_tensors
        return _turned(gradient, cos, sin, -1.0), None, None


def _turned(x: Tensor, cos: Tensor, sin: Tensor, direction: float) -> Tensor:
    out = torch.empty_like(x)
    first, second = x.chunk(2, dim=-1)
    into_first, into_second = out.chunk(2, dim=-1)
    torch.mul(first, cos, out=into_first).addcmul_(second, sin, value=-direction)
    torch.mul(second, cos, out=into_second).addcmul_(first, sin, value=direction)
    return out
