"""Pipeline parallel: consecutive blocks on consecutive ranks, micro-batches passed along them (1F1B, or interleaved; Narayanan et al. 2021).

By torch.distributed.pipelining. The first rank holds the embedding, the last one norm and head; interleaved, each rank holds several groups of
blocks. Parameters keep the names they have in the whole model, so that checkpoints and optimizer state fit any layout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleInterleaved1F1B

from umsicht.findings import UserError
from umsicht.model.transformer import document_mask
from umsicht.tokens.batch import Batch
from umsicht.train.objective import LanguageModelling, LossSums
from umsicht.train.ranks import ordered_sum
from umsicht.train.shares import nothing
from umsicht.words import t


def layers_of(n_layers: int, stages: int) -> list[list[str]]:
    """Names of the blocks of each stage; earlier stages take one more where they do not divide evenly."""
    part, longer = divmod(n_layers, stages)
    found, at = [], 0
    for stage in range(stages):
        size = part + (stage < longer)
        found.append([str(i) for i in range(at, at + size)])
        at += size
    return found


class Stage(nn.Module):
    """Some blocks of a model: token ids, or the stream of the stage before, in; the stream out.

    Families whose blocks read the stream as it entered the model pass it along as a second tensor.
    """

    def __init__(
        self, model: Any, keys: list[str], *, is_first: bool, is_last: bool, objective: LanguageModelling
    ):
        super().__init__()
        # In a list, so that the model's parameters stay the model's.
        self._held = [model]
        self.keys, self.is_first, self.is_last = keys, is_first, is_last
        self.passes_first = model.config.family == "fast"
        self.objective = objective

    def forward(self, *stream: Tensor, ids: Tensor, document_ids: Tensor) -> Tensor | tuple[Tensor, ...]:
        """`ids` and `document_ids` `[rows, seq]`; `stream` holds `[rows, seq, d_model]` tensors behind the first stage."""
        model = self._held[0]
        documents = document_ids if self.objective.document_mask else None
        mask = None if documents is None else document_mask(documents)
        with torch.autocast(ids.device.type, dtype=torch.bfloat16, enabled=self.objective.autocast):
            positions = model.positions_of(ids, documents)
            x = model.enter(ids, positions) if self.is_first else stream[0]
            first = x if self.is_first or not self.passes_first else stream[1]
            x = model.through(x, first, ids, positions, mask, keys=self.keys)
            if self.is_last:
                hidden: Tensor = model.norm(x)
                return hidden
        # A copy: what a stage passes on may not be what it was given.
        return (x, first.clone()) if self.passes_first else x


class Pipeline:
    """The stages of this rank and the schedule that runs them."""

    def __init__(
        self, model: Any, group: dist.ProcessGroup, *, kind: str, stages_per_rank: int, device: torch.device
    ) -> None:
        self._group, self._device = group, device
        self._rank, self._world = dist.get_rank(group), dist.get_world_size(group)
        self._kind = kind
        per_rank = stages_per_rank if kind == "interleaved" else 1
        self.n_stages = self._world * per_rank
        config = model.config
        if config.n_layers < self.n_stages:
            raise UserError(
                t("train.pipeline_too_long", layers=config.n_layers, stages=self.n_stages),
                where="parallel.pipeline",
                fix=t("train.pipeline_too_long_fix"),
            )
        if config.tied:
            raise UserError(
                t("train.pipeline_tied"), where="parallel.pipeline", fix=t("train.pipeline_tied_fix")
            )
        self._keys = layers_of(config.n_layers, self.n_stages)
        self._mine = list(range(self._rank, self.n_stages, self._world))
        self._made: dict[tuple[int, int, int], Any] = {}
        self._nats: list[Tensor] = []
        self._count = 1
        self.model = self._trimmed(model)

    def _trimmed(self, model: Any) -> nn.Module:
        """The model without what other ranks hold."""
        held = [key for stage in self._mine for key in self._keys[stage]]
        model.layers = nn.ModuleDict({key: model.layers.get_submodule(key) for key in held})
        model.value_embeds = nn.ModuleDict({k: v for k, v in model.value_embeds.items() if k in held})
        if 0 not in self._mine:
            model.embed = None
            model.positions = None if model.positions is None else _NoTable()
        if self.n_stages - 1 not in self._mine:
            model.norm = model.head = None
        return cast(nn.Module, model)

    def backward(self, objective: LanguageModelling, batches: Sequence[Batch], count: int) -> Tensor:
        """One pass over all micro-batches; returns their summed nats on every rank of the pipeline."""
        whole, n = self._cut(batches)
        schedule = self._schedule(objective, whole.inputs.shape[0] // n, whole.inputs.shape[1], n)
        self._count, self._nats = max(1, count), []
        given = {"ids": whole.inputs, "document_ids": whole.document_ids}
        stream = (whole.inputs,) if 0 in self._mine else ()
        is_last = self.n_stages - 1 in self._mine
        schedule.step(
            *stream,
            target=whole.targets if is_last else None,
            losses=[] if is_last else None,
            return_outputs=False,
            **given,
        )
        nats = torch.stack(self._nats[-n:]).sum() if is_last else torch.zeros((), device=self._device)
        return ordered_sum(nats.float(), self._group, self._world)

    def _cut(self, batches: Sequence[Batch]) -> tuple[Batch, int]:
        """All rows as one batch, and into how many micro-batches it goes: enough to fill the pipeline, as many on every rank."""
        rows = sum(b.inputs.shape[0] for b in batches)
        size = min(batches[0].inputs.shape[0], max(1, rows // self.n_stages))
        n = max(-(-rows // size), self.n_stages)
        n = -(-n // self._world) * self._world
        parts = [*batches, *(nothing(batches[0]) for _ in range(n * size - rows))]
        names = ("inputs", "targets", "document_ids", "rows")
        whole = Batch(**{name: torch.cat([getattr(b, name) for b in parts]) for name in names})
        return whole.to(self._device), n

    def _schedule(self, objective: LanguageModelling, rows: int, seq: int, n: int) -> Any:
        key = (rows, seq, n)
        if key not in self._made:
            stages = [self._stage(index, objective, rows, seq) for index in self._mine]
            loss = self._loss(objective)
            # Gradients are of a sum divided by the count of the whole batch: nothing is left to divide by.
            if self._kind == "interleaved":
                self._made[key] = ScheduleInterleaved1F1B(list(stages), n, loss_fn=loss, scale_grads=False)
            else:
                self._made[key] = Schedule1F1B(stages[0], n, loss_fn=loss, scale_grads=False)
        return self._made[key]

    def _loss(self, objective: LanguageModelling) -> Callable[[Tensor, Tensor], Tensor]:
        def loss(hidden: Tensor, targets: Tensor) -> Tensor:
            with torch.autocast(hidden.device.type, dtype=torch.bfloat16, enabled=objective.autocast):
                sums: LossSums = objective.of_hidden(self.model, hidden, targets)
            self._nats.append(sums.nats)
            return sums.objective / self._count

        return loss

    def _stage(self, index: int, objective: LanguageModelling, rows: int, seq: int) -> PipelineStage:
        is_first, is_last = index == 0, index == self.n_stages - 1
        config: Any = self.model.config
        module = Stage(self.model, self._keys[index], is_first=is_first, is_last=is_last, objective=objective)
        module.train(self.model.training)
        # Shapes are told, not tried: a trial pass would run the loss on tensors without values.
        dtype = torch.bfloat16 if objective.autocast else next(self.model.parameters()).dtype

        def stream() -> Tensor:
            return torch.empty(
                rows, seq, config.d_model, dtype=dtype, device=self._device, requires_grad=True
            )

        n_streams = 2 if module.passes_first else 1
        ids = torch.zeros(rows, seq, dtype=torch.long, device=self._device)
        return PipelineStage(
            module,
            index,
            self.n_stages,
            self._device,
            input_args=(ids,) if is_first else tuple(stream() for _ in range(n_streams)),
            output_args=stream() if is_last else tuple(stream() for _ in range(n_streams)),
            group=self._group,
        )


class _NoTable(nn.Module):
    """Stands where learned positions are another rank's: only the first stage looks them up."""
