"""A layout in which no process holds the whole model: shard, tensor, pipeline, and what may be combined with data.

Coordinates, outermost first: pipeline, data, shard, tensor. The order of ranks inside every group is theirs, and sums are added in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from umsicht.recipe.parallel import ParallelSettings
from umsicht.tokens.batch import Batch
from umsicht.train.alone import ALONE
from umsicht.train.layouts.owners import Owners
from umsicht.train.layouts.pieces import cut_along, is_distributed, laid_out_as_weight
from umsicht.train.layouts.pipeline import Pipeline
from umsicht.train.layouts.replicate import sum_gradients
from umsicht.train.layouts.shard import shard_model
from umsicht.train.layouts.sizes import Sizes
from umsicht.train.layouts.tensor import (
    check_rows,
    divides_stream,
    partial_parameters,
    split_model,
)
from umsicht.train.layouts.vocabulary import VocabularyLoss
from umsicht.train.muon import orthogonalise
from umsicht.train.objective import LanguageModelling, Objective
from umsicht.train.ranks import Ranks, ordered_sum
from umsicht.train.reduction import local

DIMENSIONS = ("pipeline", "data", "shard", "tensor")


class MeshLayout:
    """The parts that this rank plays; the kinds themselves are in the other files of this package."""

    is_split = True

    def __init__(self, sizes: Sizes, ranks: Ranks, settings: ParallelSettings, device: str) -> None:
        self.sizes, self.ranks, self.settings = sizes, ranks, settings
        self.check_every = settings.check_every
        self._shape = (sizes.pipeline, sizes.data, sizes.shard, sizes.tensor)
        self._device = torch.device(device)
        self.mesh: DeviceMesh = init_device_mesh(device, self._shape, mesh_dim_names=DIMENSIONS)
        self.at = dict(zip(DIMENSIONS, self._coordinate(ranks.rank), strict=True))
        self._groups: dict[tuple[str, ...], dist.ProcessGroup] = {}
        for names in (
            ("data", "shard"),
            ("data",),
            ("tensor",),
            ("pipeline",),
            ("shard", "tensor", "pipeline"),
            ("shard", "tensor"),
        ):
            self._groups[names] = self._group_along(names)
        self._pipeline: Pipeline | None = None
        self._partial: list[nn.Parameter] = []
        self._divided = False

    def _coordinate(self, rank: int) -> tuple[int, ...]:
        return tuple(rank // math.prod(self._shape[i + 1 :]) % size for i, size in enumerate(self._shape))

    def _group_along(self, names: Sequence[str]) -> dist.ProcessGroup:
        """The group of ranks that differ from this one in the coordinates `names` only; every rank makes all such groups in one order."""
        fixed = [i for i, name in enumerate(DIMENSIONS) if name not in names]
        members: dict[tuple[int, ...], list[int]] = {}
        for rank in range(self.ranks.world):
            coordinate = self._coordinate(rank)
            members.setdefault(tuple(coordinate[i] for i in fixed), []).append(rank)
        mine = None
        for ranks in members.values():
            group = dist.new_group(ranks)
            if self.ranks.rank in ranks:
                mine = group
        return cast(dist.ProcessGroup, mine)

    # What the loop asks -----------------------------------------------------------------------------------------------

    @property
    def rank(self) -> int:
        return self.at["data"] * self.sizes.shard + self.at["shard"]

    @property
    def world(self) -> int:
        return self.sizes.data * self.sizes.shard

    @property
    def is_writer(self) -> bool:
        return self.ranks.is_first

    @property
    def speaks(self) -> bool:
        return self.at["tensor"] == 0 and self.at["pipeline"] == 0

    def total(self, value: Tensor) -> Tensor:
        return value if self.world == 1 else ordered_sum(value, self._groups["data", "shard"], self.world)

    def any(self, flag: bool) -> bool:
        return self.ranks.any(flag)

    def place(self, model: nn.Module) -> nn.Module:
        self._config = cast(Any, model).config
        if self.sizes.pipeline > 1:
            self._pipeline = Pipeline(
                model,
                self._groups["pipeline",],
                kind=self.settings.schedule,
                stages_per_rank=self.settings.stages_per_rank,
                device=self._device,
            )
            return self._pipeline.model
        if self.sizes.tensor > 1:
            self._divided = divides_stream(self._config, self.sizes.tensor, self.settings.sequence)
            model = split_model(model, self.mesh["tensor"], divide_stream=self._divided)
        if self.sizes.shard > 1:
            model = shard_model(model, self.mesh["shard"])
        if self.sizes.tensor > 1:
            self._partial = partial_parameters(model, divided_stream=self._divided)
        return model

    def fit_objective(self, objective: Objective) -> Objective:
        if self.sizes.tensor > 1 and isinstance(objective, LanguageModelling):
            objective.head_loss = VocabularyLoss(self._groups["tensor",])
        return objective

    def backward(
        self,
        model: nn.Module,
        objective: Objective,
        batches: Sequence[Batch],
        count: int,
        device: torch.device,
    ) -> Tensor:
        if self._pipeline is not None:
            return self._pipeline.backward(cast(LanguageModelling, objective), batches, count)
        if self._divided:
            check_rows([b.inputs.shape[1] for b in batches], self.sizes.tensor)
        return ALONE.backward(model, objective, batches, count, device)

    def gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        for parameter in parameters:
            laid_out_as_weight(parameter)
        if self._partial:
            sum_gradients(self._partial, self._groups["tensor",], self.sizes.tensor)
        if self.sizes.shard > 1:
            # What FSDP left whole, it did not sum either.
            whole = [p for p in parameters if "shard" not in cut_along(p) and p.ndim == 0]
            sum_gradients(whole, self._along_shard(), self.sizes.shard)
        if self.sizes.data > 1:
            sum_gradients(parameters, self._groups["data",], self.sizes.data)

    def _along_shard(self) -> dist.ProcessGroup:
        return self.mesh["shard"].get_group()

    def gradient_norm(self, parameters: Sequence[nn.Parameter]) -> Tensor:
        """Each piece counts on one of the ranks that hold it; squares are added in float64, in rank order."""
        mine = [local(p.grad) for p in parameters if p.grad is not None and self._counts(p)]
        norms = torch._foreach_norm([g for g in mine if g.numel()], 2, dtype=torch.float32) if mine else []
        square = torch.zeros((), dtype=torch.float64)
        if norms:
            square = torch.stack(list(norms)).double().square().sum().cpu()
        group = self._groups["shard", "tensor", "pipeline"]
        return ordered_sum(square, group, dist.get_world_size(group)).sqrt().float()

    def _counts(self, parameter: nn.Parameter) -> bool:
        cut = cut_along(parameter)
        return all(name in cut or self.at[name] == 0 for name in ("shard", "tensor"))

    def orthogonaliser(self, parameters: Sequence[nn.Parameter]) -> Callable[..., Any] | None:
        if any(is_distributed(p) for p in parameters):
            return Owners(parameters, self._groups["shard", "tensor"], orthogonalise, replicated=False)
        if self.sizes.data > 1:
            return Owners(parameters, self._groups["data",], orthogonalise, replicated=True)
        return None

    def view_type(self) -> Any:
        from umsicht.train.layouts.whole import Mirror, SplitView

        stages = self._groups["pipeline",] if self.sizes.pipeline > 1 else None
        mirror = Mirror(self._config, self._device, stages)

        def make(*values: Any, **named: Any) -> SplitView:
            view = SplitView(*values, **named)
            view.mirror = mirror
            return view

        return make

    def saver(self, run: Any, settings: Any, progress: Any) -> Any:
        from umsicht.train.sharded import ShardedSaver

        return ShardedSaver(run, settings, progress, dist.new_group())
