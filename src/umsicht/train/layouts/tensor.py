"""Tensor parallel: each rank of a group holds some heads, some columns of the feed-forward network, a slice of the vocabulary.

By torch's DTensor. Two matrices in a row are cut along what lies between them (columns of the first, rows of the second), so that a block
exchanges twice forward and twice backward.

Between the matrices either every rank holds the whole residual stream; then what works on it there is the same on all of them, and so is its gradient.
Or the stream is divided along the sequence as well (Korthikanti et al. 2022, §4.2): norms and sums are computed once instead of on
every rank, what is kept for the backward pass shrinks by as much, and the traffic stays the same, since a sum on all ranks is a sum scattered and then
gathered. Weights that see a part only (queries' and keys' norms: this rank's heads; with a divided stream everything that works on it) have a gradient that
is a part and must be summed (`partial_parameters`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Placement, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    parallelize_module,
)
from torch.distributed.tensor.parallel.style import ParallelStyle

from umsicht.findings import UserError
from umsicht.model import ModelConfig
from umsicht.model.transformer import role_of
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


def divides_stream(config: ModelConfig, ways: int, wanted: bool | None) -> bool:
    """Whether the residual stream is divided along the sequence; None: where that changes nothing but memory.

    Raises UserError where it is wanted and the sequence does not divide, or dropout would draw the same on every part.
    """
    drops = config.dropout_residual > 0 or config.dropout_embedding > 0
    fits = config.seq_len % ways == 0 and not drops
    if wanted and not fits:
        raise _does_not_divide(config.seq_len, ways)
    return fits and wanted is not False


def check_rows(lengths: Iterable[int], ways: int) -> None:
    """Raises UserError where rows are of another length than the model's (a phase of short ones) and do not divide."""
    for length in lengths:
        if length % ways:
            raise _does_not_divide(length, ways)


def _does_not_divide(length: int, ways: int) -> UserError:
    return UserError(
        t("train.sequence_does_not_divide", size=length, ways=ways),
        where="parallel.sequence",
        fix=t("train.sequence_does_not_divide_fix"),
    )


def split_model(model: Any, mesh: DeviceMesh, *, divide_stream: bool = False) -> nn.Module:
    """Distribute the matrices of a `Transformer` over `mesh` (one dimension); with `divide_stream` the residual stream along the sequence too."""
    check_sizes(model.config, mesh.size())
    stream: Placement = Shard(1) if divide_stream else Replicate()
    inputs = PrepareModuleInput(
        input_layouts=(stream, None, None, None, None),
        desired_input_layouts=(Replicate(), None, None, None, None),
    )
    feed = PrepareModuleInput(input_layouts=(stream,), desired_input_layouts=(Replicate(),))
    for layer in model.layers.children():
        plan: dict[str, ParallelStyle] = {
            "attention": inputs,
            "attention.q_proj": ColwiseParallel(),
            "attention.k_proj": ColwiseParallel(),
            "attention.v_proj": ColwiseParallel(),
            "attention.o_proj": RowwiseParallel(output_layouts=stream),
            "mlp": feed,
            "mlp.up_proj": ColwiseParallel(),
            "mlp.down_proj": RowwiseParallel(output_layouts=stream),
        }
        if hasattr(layer.mlp, "gate_proj"):
            plan["mlp.gate_proj"] = ColwiseParallel()
        if layer.attention.value_gate is not None:
            plan["attention.value_gate"] = ColwiseParallel()
        parallelize_module(layer, mesh, plan)
    outside: dict[str, ParallelStyle] = {
        "embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=stream)
    }
    for key in model.value_embeds:
        outside[f"value_embeds.{key}"] = ColwiseParallel()
    if model.head is not None:
        outside["head"] = ColwiseParallel()
    if divide_stream:
        outside["norm"] = PrepareModuleOutput(output_layouts=stream, desired_output_layouts=Replicate())
        if model.positions is not None:
            outside["positions"] = PrepareModuleOutput(
                output_layouts=Replicate(), desired_output_layouts=Shard(-2)
            )
    parallelize_module(model, mesh, outside)
    return cast(nn.Module, model)


def partial_parameters(model: nn.Module, *, divided_stream: bool = False) -> list[nn.Parameter]:
    """Whole parameters whose gradient on each rank covers that rank's heads, or its part of the sequence, only."""
    kinds = ("norm", "scalar") if divided_stream else ()
    return [
        parameter
        for name, parameter in model.named_parameters()
        if name.endswith(("q_norm.weight", "k_norm.weight"))
        or (role_of(name) in kinds and not _is_of_matrix(name))
    ]


def _is_of_matrix(name: str) -> bool:
    """True for the bias of a matrix that is distributed itself: its gradient is laid out with it."""
    return "_proj." in name
