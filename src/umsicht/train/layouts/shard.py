"""Sharded data parallel (ZeRO stage 3; Rajbhandari et al. 2020) by torch's FSDP2: each rank keeps a part of every weight, gradient and moment.

A layer's weights are gathered for its forward and backward pass only; gradients come out summed over the ranks and cut up. What has no
dimension to cut (single numbers) stays whole everywhere and is summed like a replica's.
"""

from __future__ import annotations

from typing import Any, cast

from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import Shard


def shard_model(model: Any, mesh: DeviceMesh) -> nn.Module:
    """Cut the parameters of a `Transformer` up among the ranks of `mesh` (one dimension), a block at a time; `hidden` is its forward pass."""
    whole = {p for p in model.parameters() if p.ndim == 0}
    for layer in model.layers.children():
        fully_shard(layer, mesh=mesh, ignored_params=whole, shard_placement_fn=_placement)
    fully_shard(model, mesh=mesh, ignored_params=whole, shard_placement_fn=_placement)
    for module in model.modules():
        if isinstance(module, FSDPModule):
            # Sums, not means: the loss is divided by the active targets of the whole batch already. gloo knows no premultiplied sums.
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)
    register_fsdp_forward_method(model, "hidden")
    return cast(nn.Module, model)


def _placement(parameter: nn.Parameter) -> Shard:
    return Shard(0)
