"""Rows packed from documents, in an order that is arithmetic: the batch of any step, without having read the steps before it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from umsicht.findings.errors import UserError
from umsicht.recipe.tokens import MixSettings, Packing
from umsicht.tokens.batch import IGNORE, Batch, split_rows
from umsicht.tokens.data import Split
from umsicht.tokens.growth import Growth
from umsicht.tokens.layout import BestFit, Concatenated, Layout, concatenated_rows
from umsicht.tokens.permutation import Permutation, derive_key
from umsicht.tokens.schedule import GroupSchedule, Phase
from umsicht.words import t

Int64s = NDArray[np.int64]
# Purposes of the keys, so that no two permutations of a run share one.
_DOCUMENTS, _ROWS, _WITHIN_BATCH = 1, 2, 3


@dataclass(frozen=True)
class Group:
    """Documents that share one entry of the mix. `first_id` is the number of its first row among all rows of an epoch."""

    name: str
    documents: Int64s
    tokens: int
    n_rows: int
    first_id: int


class PackedSource:
    """A `BatchSource` over the documents of a split.

    Every epoch reads each group's documents in a new order, cuts them into new rows (`concatenate`) and visits the rows in a new order; no row
    comes twice in an epoch. Nothing depends on the number of ranks or on how often the run was resumed.
    """

    def __init__(
        self,
        split: Split,
        *,
        seq_len: int,
        batch_tokens: int,
        eos_id: int,
        seed: int = 0,
        packing: Packing = "concatenate",
        mix: MixSettings | None = None,
        total_steps: int | None = None,
        growth: Growth | None = None,
    ) -> None:
        """`total_steps` is needed by curriculum phases only; with `growth` the first steps read parts of a batch. Raises UserError where batch, data or mix do not fit together."""
        if batch_tokens % seq_len:
            raise UserError(
                t("tokens.batch_not_rows", batch=batch_tokens, seq_len=seq_len),
                fix=t("tokens.batch_not_rows_fix"),
            )
        self.split, self.seq_len, self.eos_id, self.seed, self.packing = split, seq_len, eos_id, seed, packing
        self.mix = mix or MixSettings()
        self.total_steps = total_steps
        self.rows_per_batch = batch_tokens // seq_len
        self.growth = growth
        if growth and self.rows_per_batch % growth.first:
            raise UserError(
                t("tokens.growth_uneven", rows=self.rows_per_batch, first=growth.first),
                where="train.phases.small_batches",
                fix=t("tokens.growth_uneven_fix"),
            )
        self._layouts: OrderedDict[tuple[int, int], Layout] = OrderedDict()
        self._permutations: OrderedDict[tuple[int, int], Permutation] = OrderedDict()
        self.groups = self._make_groups()
        self.schedule = GroupSchedule(self._phases(), derive_key(seed, _WITHIN_BATCH))

    @property
    def tokens_per_batch(self) -> int:
        """Targets of a full global batch."""
        return self.rows_per_batch * self.seq_len

    def rows_before(self, step: int) -> int:
        """Rows that the steps before `step` have read."""
        if self.growth is None:
            return step * self.rows_per_batch
        return self.growth.parts_before(step) * (self.rows_per_batch // self.growth.first)

    def rows_at(self, step: int) -> int:
        """Rows of the batch of `step`."""
        return self.rows_before(step + 1) - self.rows_before(step)

    def tokens_at(self, step: int) -> int:
        """Targets of the batch of `step`, where all of them are active."""
        return self.rows_at(step) * self.seq_len

    @property
    def total_rows(self) -> int:
        """Rows of one pass over all groups."""
        return sum(group.n_rows for group in self.groups)

    @property
    def steps_per_epoch(self) -> float:
        """Steps in which as many rows are read as one pass has."""
        return self.total_rows / self.rows_per_batch

    def epoch(self, step: int) -> float:
        """Rows read before `step`, in passes over the data."""
        if self.growth is None:
            return step / self.steps_per_epoch
        return self.rows_before(step) / self.total_rows

    def epochs_by_group(self, step: int) -> dict[str, float]:
        """Passes over each group that are complete when `step` begins."""
        counts = self.schedule.counts(self.rows_before(step))
        return {group.name: count / group.n_rows for group, count in zip(self.groups, counts, strict=True)}

    def state(self) -> dict[str, Any]:
        """What decides the order: compare it before resuming."""
        return {
            "seq_len": self.seq_len,
            "batch_tokens": self.tokens_per_batch,
            "seed": self.seed,
            "packing": self.packing,
            "mix": self.mix.plain(),
            # Only where there is one: checkpoints of earlier versions say nothing of it.
            **({"growth": self.growth.state()} if self.growth else {}),
            "total_steps": self.total_steps if self.mix.phases else None,
            "documents": self.split.n_documents,
            "tokens": self.split.n_tokens,
        }

    def group_numbers(self, step: int) -> Int64s:
        """Group of each row of the global batch of `step`, `[rows]`."""
        return self._rows_of(step)[0]

    def batch(self, step: int) -> Batch:
        """The whole global batch of `step`."""
        return self._read(*self._rows_of(step))

    def micro_batches(self, step: int, rows: int, rank: int = 0, world: int = 1) -> Iterator[Batch]:
        """This rank's part of the global batch of `step`, `rows` rows at a time (the last may be fewer).

        Raises UserError where the rows cannot be shared evenly: ranks with different numbers of micro-batches would wait for ever.
        """
        total = self.rows_at(step)
        if total % world:
            raise UserError(
                t("tokens.world_uneven", rows=total, world=world),
                fix=t("tokens.world_uneven_fix"),
            )
        start, stop = split_rows(total, rank, world)
        groups, epochs, numbers = self._rows_of(step)
        for first in range(start, stop, rows):
            part = slice(first, min(first + rows, stop))
            yield self._read(groups[part], epochs[part], numbers[part])

    def _rows_of(self, step: int) -> tuple[Int64s, Int64s, Int64s]:
        """Group, epoch and row within the epoch of each row of the batch of `step`."""
        n = self.rows_at(step)
        groups, ordinals = self.schedule.place(self.rows_before(step), n)
        if len(self.groups) > 1:
            # The groups follow each other almost periodically; without this one rank could always get the same one.
            shuffled = Permutation(n, derive_key(self.seed, _WITHIN_BATCH, step)).all()
            groups, ordinals = groups[shuffled], ordinals[shuffled]
        sizes = np.asarray([group.n_rows for group in self.groups], dtype=np.int64)
        epochs, within = np.divmod(ordinals, sizes[groups])
        rows = np.empty(n, dtype=np.int64)
        for group, epoch in {(int(g), int(e)) for g, e in zip(groups, epochs, strict=True)}:
            members = np.flatnonzero((groups == group) & (epochs == epoch))
            rows[members] = self._permutation(group, epoch)(within[members])
        return groups, epochs, rows

    def _read(self, groups: Int64s, epochs: Int64s, rows: Int64s) -> Batch:
        n, width = len(rows), self.seq_len + 1
        ids = np.full((n, width), self.eos_id, dtype=np.int64)
        documents = np.full((n, width), -1, dtype=np.int32)
        sample_ids = np.empty(n, dtype=np.int64)
        for index, (group, epoch, row) in enumerate(
            zip(groups.tolist(), epochs.tolist(), rows.tolist(), strict=True)
        ):
            for number, piece in enumerate(self._layout(group, epoch).pieces(row)):
                place = slice(piece.at, piece.at + piece.length)
                ids[index, place] = self.split.document(piece.document)[
                    piece.start : piece.start + piece.length
                ]
                documents[index, place] = number
            sample_ids[index] = self.groups[group].first_id + row
        targets = ids[:, 1:].copy()
        targets[documents[:, 1:] < 0] = IGNORE
        if self.packing == "best-fit":
            # The first token of a document that does not follow the one before it in the data is nothing to predict from there.
            targets[documents[:, 1:] != documents[:, :-1]] = IGNORE
        return Batch(
            torch.from_numpy(ids[:, :-1].copy()),
            torch.from_numpy(targets),
            torch.from_numpy(documents[:, :-1].copy()),
            torch.from_numpy(sample_ids),
        )

    def _layout(self, group: int, epoch: int) -> Layout:
        key = (group, 0 if self.packing == "best-fit" else epoch)
        found = self._layouts.get(key)
        if found is None:
            documents = self.groups[group].documents
            order = documents[Permutation(len(documents), derive_key(self.seed, _DOCUMENTS, *key)).all()]
            kind = BestFit if self.packing == "best-fit" else Concatenated
            found = self._layouts[key] = kind(order, self.split.lengths[order], self.seq_len)
            if len(self._layouts) > 2 * len(self.groups) + 2:
                self._layouts.popitem(last=False)
        self._layouts.move_to_end(key)
        return found

    def _permutation(self, group: int, epoch: int) -> Permutation:
        key = (group, epoch)
        found = self._permutations.get(key)
        if found is None:
            found = self._permutations[key] = Permutation(
                self.groups[group].n_rows, derive_key(self.seed, _ROWS, group, epoch)
            )
            if len(self._permutations) > 2 * len(self.groups) + 2:
                self._permutations.popitem(last=False)
        return found

    def _make_groups(self) -> list[Group]:
        wanted = self._mix_names()
        if not wanted:
            members = {"all": np.arange(self.split.n_documents, dtype=np.int64)}
        else:
            numbers, names = self.split.labels(self.mix.by)
            unknown = [name for name in wanted if name not in names]
            if unknown:
                raise UserError(
                    t("tokens.mix_unknown", name=unknown[0]),
                    where="tokens.mix",
                    fix=t("tokens.mix_unknown_fix", known=", ".join(names)),
                )
            members = {name: np.flatnonzero(numbers == names.index(name)) for name in wanted}
        groups: list[Group] = []
        for name, documents in members.items():
            tokens = int(self.split.lengths[documents].sum())
            groups.append(Group(name, documents, tokens, 0, 0))
        return self._with_rows(groups)

    def _with_rows(self, groups: list[Group]) -> list[Group]:
        self.groups = groups
        counted: list[Group] = []
        for number, group in enumerate(groups):
            if group.tokens < 2:
                raise self._empty(group)
            rows = concatenated_rows(group.tokens, self.seq_len)
            if self.packing == "best-fit":
                rows = self._layout(number, 0).n_rows
            first = counted[-1].first_id + counted[-1].n_rows if counted else 0
            counted.append(Group(group.name, group.documents, group.tokens, rows, first))
        return counted

    def _empty(self, group: Group) -> UserError:
        if not self._mix_names():
            return UserError(
                t("tokens.too_short", tokens=group.tokens, seq_len=self.seq_len),
                fix=t("tokens.too_short_fix", tokens=max(8, group.tokens)),
            )
        return UserError(
            t("tokens.mix_empty", name=group.name),
            where="tokens.mix",
            fix=t("tokens.mix_empty_fix", name=group.name),
        )

    def _mix_names(self) -> list[str]:
        """Names with a share above zero in any phase, sorted; empty where no mix is declared."""
        names = {name for shares in self._declared() for name, share in shares.items() if share > 0}
        if names and any(not shares for shares in self._declared()):
            names |= set(self.split.labels(self.mix.by)[1])
        return sorted(names)

    def _declared(self) -> list[dict[str, float]]:
        return [phase.shares for phase in self.mix.phases] or [self.mix.shares]

    def _phases(self) -> list[Phase]:
        declared = [self._normal(shares) for shares in self._declared()]
        if not self.mix.phases:
            return [Phase(0, declared[0])]
        if self.total_steps is None:
            raise UserError(
                t("tokens.phases_need_steps"),
                where="tokens.mix.phases",
                fix=t("tokens.phases_need_steps_fix"),
            )
        total_rows = self.rows_before(self.total_steps)
        starts = [0, *(round(phase.until * total_rows) for phase in self.mix.phases[:-1])]
        return [Phase(start, shares) for start, shares in zip(starts, declared, strict=True)]

    def _normal(self, shares: dict[str, float]) -> tuple[float, ...]:
        """Shares of the groups in order, summing to 1; without a declaration in proportion to their rows."""
        values = [shares.get(group.name, 0.0) if shares else float(group.n_rows) for group in self.groups]
        return tuple(value / sum(values) for value in values)
