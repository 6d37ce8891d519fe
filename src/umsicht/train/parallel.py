"""A layout: how a model and its batches lie on the processes of a job. One mesh, one file a kind in `layouts/`.

Coordinates, outermost first: pipeline, data, shard, tensor. Replicas along `data` and `shard` compute different rows; processes along `tensor`
and `pipeline` compute different parts of the model on the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch.distributed as dist
from torch import Tensor, nn

from umsicht.recipe.parallel import ParallelSettings
from umsicht.train.alone import ALONE, WholeModel
from umsicht.train.layouts.replicate import sum_gradients
from umsicht.train.layouts.sizes import sizes_of
from umsicht.train.ranks import Ranks, ordered_sum
from umsicht.train.reduction import Reduction


class DataParallel(WholeModel):
    """Every rank holds the whole model; each computes its part of the batch."""

    def __init__(self, ranks: Ranks, check_every: int = 50) -> None:
        self.ranks = ranks
        self.check_every = check_every
        self._group = dist.group.WORLD

    @property
    def rank(self) -> int:
        return self.ranks.rank

    @property
    def world(self) -> int:
        return self.ranks.world

    @property
    def is_writer(self) -> bool:
        return self.ranks.is_first

    def total(self, value: Tensor) -> Tensor:
        return ordered_sum(value, self._group, self.world)

    def any(self, flag: bool) -> bool:
        return self.ranks.any(flag)

    def gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        assert self._group is not None
        sum_gradients(parameters, self._group, self.world)

    def orthogonaliser(self, parameters: Sequence[nn.Parameter]) -> Callable[..., Any] | None:
        from umsicht.train.layouts.owners import Owners
        from umsicht.train.muon import orthogonalise

        assert self._group is not None
        return Owners(parameters, self._group, orthogonalise, replicated=True)


def layout_of(settings: ParallelSettings, ranks: Ranks, device: str = "cpu") -> Reduction:
    """The layout of this job's processes; `ALONE` for one process. Raises UserError where the recipe's sizes do not fit."""
    sizes = sizes_of(settings, ranks.world)
    if sizes.world == 1:
        return ALONE
    if not sizes.is_split:
        return DataParallel(ranks, settings.check_every)
    from umsicht.train.layouts.mesh import MeshLayout

    return MeshLayout(sizes, ranks, settings, device)
