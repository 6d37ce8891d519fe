"""Data parallel: every rank holds the whole model and a part of the batch; gradients are summed in an order of our own.

Each rank receives one piece of everybody's gradient, adds the pieces in rank order, and hands the sum round. So the result of every element is
g₀ + g₁ + g₂ + …, whatever the size of the buckets, and a restart at the same world size gives the same bits (torch's DDP rebuilds its
buckets after the first backward pass, so that a resumed step adds in another order). The traffic is that of a ring all-reduce.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from umsicht.train.clock import communicating
from umsicht.train.reduction import local

BUCKET_ELEMENTS = 4 << 20
# The same function; newer torch warns at the older name, older torch does not know the newer.
_all_gather: Any = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


@torch.no_grad()
def sum_in_rank_order(flat: Tensor, group: dist.ProcessGroup, world: int) -> None:
    """Replace `flat` `[n]` by its sum over the group, added in rank order."""
    n = flat.numel()
    piece = -(-n // world)
    sent = flat if piece * world == n else torch.cat([flat, flat.new_zeros(piece * world - n)])
    received = torch.empty_like(sent)
    with communicating():
        dist.all_to_all_single(received, sent, group=group)
    parts = received.view(world, piece)
    total = parts[0]
    for part in parts[1:]:
        total += part
    with communicating():
        _all_gather(sent, total.contiguous(), group=group)
    if sent is not flat:
        flat.copy_(sent[:n])


@torch.no_grad()
def sum_gradients(parameters: Sequence[nn.Parameter], group: dist.ProcessGroup, world: int) -> None:
    """Sum the gradients of `parameters` over the group in place, bucket by bucket, in the order given; bfloat16 is summed in float32."""
    gradients = [local(p.grad) for p in parameters if p.grad is not None]
    for bucket in _buckets(gradients):
        wide = torch.float64 if bucket[0].dtype == torch.float64 else torch.float32
        flat = torch.cat([g.reshape(-1).to(wide) for g in bucket])
        sum_in_rank_order(flat, group, world)
        offset = 0
        for gradient in bucket:
            gradient.copy_(flat[offset : offset + gradient.numel()].view(gradient.shape))
            offset += gradient.numel()


def _buckets(tensors: Sequence[Tensor]) -> list[list[Tensor]]:
    """Neighbours of one type, together at most BUCKET_ELEMENTS long (a longer tensor alone)."""
    buckets: list[list[Tensor]] = []
    size = 0
    for tensor in tensors:
        full = size + tensor.numel() > BUCKET_ELEMENTS
        if not buckets or full or buckets[-1][0].dtype != tensor.dtype:
            buckets.append([])
            size = 0
        buckets[-1].append(tensor)
        size += tensor.numel()
    return buckets
