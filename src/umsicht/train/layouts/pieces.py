"""Which part of a tensor this rank holds, for anything that has to fit parts and wholes together."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

from umsicht.train.reduction import local


def is_distributed(tensor: Tensor) -> bool:
    """True for a tensor of which this rank holds a part (or a declared copy)."""
    return local(tensor) is not tensor


def place(tensor: Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Offset and shape of this rank's part in the whole tensor."""
    if not is_distributed(tensor):
        return (0,) * tensor.ndim, tuple(tensor.shape)
    distributed: Any = tensor
    shape, offset = compute_local_shape_and_global_offset(
        distributed.shape, distributed.device_mesh, distributed.placements
    )
    return tuple(int(o) for o in offset), tuple(int(s) for s in shape)


def cut_along(tensor: Tensor) -> set[str]:
    """Names of the mesh dimensions along which this tensor is cut; along all others it is the same."""
    if not is_distributed(tensor):
        return set()
    distributed: Any = tensor
    names = distributed.device_mesh.mesh_dim_names
    return {
        name for name, placed in zip(names, distributed.placements, strict=True) if not placed.is_replicate()
    }


@torch.no_grad()
def laid_out_as_weight(parameter: Any) -> None:
    """Cut the gradient as its weight is cut. DTensor leaves that of a split embedding whole on every rank, and nothing fails by it: the optimizer
    would only move the wrong rows."""
    gradient = parameter.grad
    if gradient is not None and is_distributed(gradient) and gradient.placements != parameter.placements:
        parameter.grad = gradient.redistribute(placements=parameter.placements)


@torch.no_grad()
def take_part(mine: Tensor, whole: Tensor) -> None:
    """Copy this rank's part of `whole` into `mine`."""
    offset, shape = place(mine)
    part = whole[tuple(slice(o, o + s) for o, s in zip(offset, shape, strict=True))]
    local(mine).copy_(part)
