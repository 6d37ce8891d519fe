"""Whole tensors out of the parts that ranks hold: to look at, to score with, to compare. Not for training, not for large checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from umsicht.model import ModelConfig, Transformer
from umsicht.train.clock import communicating
from umsicht.train.hooks import View
from umsicht.train.layouts.pieces import is_distributed


@torch.no_grad()
def whole_tensors(tensors: Mapping[str, Tensor], stages: dist.ProcessGroup | None) -> dict[str, Tensor]:
    """Every named tensor whole, on every rank; `stages` is the group whose ranks hold different names (a pipeline)."""
    with communicating():
        mine: dict[str, Tensor] = {}
        for name, tensor in tensors.items():
            distributed: Any = tensor
            mine[name] = distributed.full_tensor() if is_distributed(tensor) else tensor.detach()
        if stages is None or dist.get_world_size(stages) == 1:
            return mine
        return _from_all(mine, stages)


def _from_all(mine: dict[str, Tensor], group: dist.ProcessGroup) -> dict[str, Tensor]:
    world = dist.get_world_size(group)
    listed: list[Any] = [None] * world
    dist.all_gather_object(listed, [(n, tuple(t.shape), t.dtype) for n, t in mine.items()], group=group)
    found: dict[str, Tensor] = {}
    device = next(iter(mine.values())).device if mine else torch.device("cpu")
    for rank, entries in enumerate(listed):
        source = dist.get_global_rank(group, rank)
        for name, shape, dtype in entries:
            is_mine = rank == dist.get_rank(group)
            box = mine[name].contiguous() if is_mine else torch.empty(shape, dtype=dtype, device=device)
            dist.broadcast(box, src=source, group=group)
            found.setdefault(name, box)
    return found


class Mirror:
    """A plain copy of a split model on every rank, filled when somebody looks."""

    def __init__(self, config: ModelConfig, device: torch.device, stages: dist.ProcessGroup | None) -> None:
        with torch.random.fork_rng(devices=[]):
            self._copy = Transformer(config).to(device)
        self._stages = stages

    def of(self, model: nn.Module) -> Transformer:
        """The copy with the present weights of `model`. Collective."""
        held = dict(model.named_parameters(remove_duplicate=False))
        whole = whole_tensors(held, self._stages)
        with torch.no_grad():
            for name, parameter in self._copy.named_parameters():
                parameter.copy_(whole[name])
        return self._copy


class SplitView(View):
    """A view whose `model` is the mirror: filled at the first look after the weights moved. Every rank must look at the same moments."""

    mirror: Mirror
    _seen: int = -1
    _source: nn.Module

    @property
    def model(self) -> nn.Module:
        if self._seen != self.moved:
            self._looked = self.mirror.of(self._source)
            self._seen = self.moved
        return self._looked

    @model.setter
    def model(self, value: nn.Module) -> None:
        self._source = value
