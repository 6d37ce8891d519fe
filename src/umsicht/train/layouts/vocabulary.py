"""Cross-entropy where each rank of a group holds a slice of the vocabulary: no rank ever sees a whole row of logits.

Only three numbers a row are exchanged (largest logit, sum of exponentials, logit of the target; for label smoothing also the sum of logits),
and the gradient of the hidden state, which is a sum over the vocabulary. Shoeybi et al. 2019 (Megatron-LM), §3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from umsicht.score.loss import IGNORE, LossSum
from umsicht.train.clock import communicating


@dataclass(frozen=True)
class _Options:
    group: dist.ProcessGroup
    first: int
    whole: int
    softcap: float | None
    chunk_rows: int
    label_smoothing: float
    z_loss: float


class VocabularyLoss:
    """As `umsicht.score.loss.loss_sum`, for a `head_weight` of which this rank holds rows `rank · n … (rank + 1) · n`."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        self.group = group
        self.rank = dist.get_rank(group)
        self.world = dist.get_world_size(group)

    def __call__(
        self,
        hidden: Tensor,
        head_weight: Any,
        targets: Tensor,
        *,
        softcap: float | None = None,
        chunk_rows: int = 512,
        label_smoothing: float = 0.0,
        z_loss: float = 0.0,
    ) -> LossSum:
        """Sums over active targets; the same on every rank of the group."""
        weight: Tensor = head_weight.to_local() if hasattr(head_weight, "to_local") else head_weight
        rows = hidden.reshape(-1, hidden.shape[-1])
        flat = targets.reshape(-1)
        kept = (flat != IGNORE).nonzero().squeeze(1)
        n = weight.shape[0]
        options = _Options(
            self.group, self.rank * n, self.world * n, softcap, chunk_rows, label_smoothing, z_loss
        )
        objective, nats = _Loss.apply(rows[kept], weight, flat[kept], options)  # type: ignore[no-untyped-call]  # torch's apply
        return LossSum(objective, nats, int(kept.numel()))


class _Loss(torch.autograd.Function):
    """Value and gradient in one pass over chunks, as in `umsicht.score.loss`; the backward pass only scales.

    Every rank of the group has the same rows, so the same number of chunks and exchanges.
    """

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, weight: Tensor, targets: Tensor, options: _Options
    ) -> tuple[Tensor, Tensor]:
        objective = torch.zeros((), dtype=torch.float32, device=rows.device)
        nats = torch.zeros_like(objective)
        grad_rows = torch.empty_like(rows)
        grad_weight = torch.zeros(weight.shape, dtype=torch.float32, device=weight.device)
        for start in range(0, rows.shape[0], options.chunk_rows):
            part = slice(start, min(start + options.chunk_rows, rows.shape[0]))
            logits = F.linear(rows[part], weight).float()
            if options.softcap is not None:
                logits = options.softcap * torch.tanh(logits / options.softcap)
            one, plain, slope = _chunk(logits, targets[part], options)
            objective += one
            nats += plain
            slope = slope.to(weight.dtype)
            grad_rows[part] = slope @ weight
            grad_weight.addmm_(slope.float().t(), rows[part].float())
        with communicating():
            dist.all_reduce(grad_rows, group=options.group)
        ctx.save_for_backward(grad_rows, grad_weight.to(weight.dtype))
        ctx.mark_non_differentiable(nats)
        return objective, nats

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: Tensor, _: Tensor) -> tuple[Tensor, Tensor, None, None]:
        grad_rows, grad_weight = ctx.saved_tensors
        return (
            grad_rows * upstream.to(grad_rows.dtype),
            grad_weight * upstream.to(grad_weight.dtype),
            None,
            None,
        )


def _chunk(logits: Tensor, targets: Tensor, options: _Options) -> tuple[Tensor, Tensor, Tensor]:
    """Objective, nats and slope (d objective / d uncapped logits) of a chunk `[rows, n]` of this rank's logits."""
    n = logits.shape[1]
    largest = logits.max(dim=1).values
    with communicating():
        dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=options.group)
    mine = targets - options.first
    here = (mine >= 0) & (mine < n)
    place = mine.clamp(0, n - 1)[:, None]
    powers = (logits - largest[:, None]).exp()
    sums = torch.stack([powers.sum(1), logits.gather(1, place).squeeze(1) * here, logits.sum(1)])
    with communicating():
        dist.all_reduce(sums, group=options.group)
    partition = largest + sums[0].log()
    nats = (partition - sums[1]).sum()
    objective = nats
    slope = powers / sums[0][:, None]
    if options.label_smoothing:
        uniform = (partition - sums[2] / options.whole).sum()
        objective = (1 - options.label_smoothing) * nats + options.label_smoothing * uniform
    if options.z_loss:
        objective = objective + options.z_loss * partition.square().sum()
        slope = slope * (1 + 2 * options.z_loss * partition)[:, None]
    if options.label_smoothing:
        slope = slope - options.label_smoothing / options.whole
    slope.scatter_add_(1, place, (options.label_smoothing - 1) * here[:, None].float())
    if options.softcap is not None:
        slope = slope * (1 - (logits / options.softcap).square())
    return objective, nats, slope
