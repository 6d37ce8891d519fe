"""Tensor parallel: each rank of a group holds some heads, some columns of the feed-forward network, a slice of the vocabulary.

By torch's DTensor. Two matrices in a row are cut along what lies between them (columns of the first, rows of the second), so that a block
exchanges twice forward and twice backward. Norms on the residual stream are the same on every rank and so is their gradient; those inside
attention (queries, keys) see only this rank's heads, so that theirs is a part and must be summed (`partial_parameters`).
"""

from __future__ import annotations

from typing import Any, cast

from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    parallelize_module,
)
from torch.distributed.tensor.parallel.style import ParallelStyle

from umsicht.findings import UserError
from umsicht.model import ModelConfig
from umsicht.words import t


def check_sizes(config: ModelConfig, ways: int) -> None:
    """Raises UserError, with the figure, where heads, widths or the padded vocabulary do not divide by `ways`."""
    sizes = {
        "n_heads": config.n_heads,
        "n_kv_heads": config.n_kv_heads,
        "d_ff": config.d_ff,
        "vocab_size": config.vocab_size,
    }
    for name, size in sizes.items():
        if size % ways:
            raise UserError(
                t("train.tensor_does_not_divide", name=name, size=size, ways=ways),
                where="parallel.tensor",
                fix=t("train.tensor_does_not_divide_fix"),
            )
    if config.lora is not None:
        raise UserError(t("train.tensor_lora"), where="parallel.tensor")


def split_model(model: Any, mesh: DeviceMesh) -> nn.Module:
    """Distribute the matrices of a `Transformer` over `mesh` (one dimension)."""
    check_sizes(model.config, mesh.size())
    inputs = PrepareModuleInput(
        input_layouts=(Replicate(), None, None, None, None),
        desired_input_layouts=(Replicate(), None, None, None, None),
    )
    feed = PrepareModuleInput(input_layouts=(Replicate(),), desired_input_layouts=(Replicate(),))
    for layer in model.layers.children():
        plan: dict[str, ParallelStyle] = {
            "attention": inputs,
            "attention.q_proj": ColwiseParallel(),
            "attention.k_proj": ColwiseParallel(),
            "attention.v_proj": ColwiseParallel(),
            "attention.o_proj": RowwiseParallel(),
            "mlp": feed,
            "mlp.up_proj": ColwiseParallel(),
            "mlp.down_proj": RowwiseParallel(),
        }
        if hasattr(layer.mlp, "gate_proj"):
            plan["mlp.gate_proj"] = ColwiseParallel()
        if layer.attention.value_gate is not None:
            plan["attention.value_gate"] = ColwiseParallel()
        parallelize_module(layer, mesh, plan)
    outside: dict[str, ParallelStyle] = {"embed": RowwiseParallel(input_layouts=Replicate())}
    for key in model.value_embeds:
        outside[f"value_embeds.{key}"] = ColwiseParallel()
    if model.head is not None:
        outside["head"] = ColwiseParallel()
    parallelize_module(model, mesh, outside)
    return cast(nn.Module, model)


def partial_parameters(model: nn.Module) -> list[nn.Parameter]:
    """Whole parameters whose gradient on each rank covers that rank's heads only."""
    return [
        parameter
        for name, parameter in model.named_parameters()
        if name.endswith(("q_norm.weight", "k_norm.weight"))
    ]
