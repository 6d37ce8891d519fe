"""Supervised rows: conversations rendered, packed with isolation, trained on the assistant's tokens alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from umsicht.tokenizer import Tokenizer
from umsicht.tokenizer.chat import render
from umsicht.tokens.batch import IGNORE, Batch, split_rows
from umsicht.tokens.permutation import Permutation, derive_key
from umsicht.words import t

from .loading import Refused
from .rows import Conversation


@dataclass(frozen=True)
class Example:
    """A rendered conversation: `ids[i]` is a target where `mask[i]` is True."""

    id: str
    ids: tuple[int, ...]
    mask: tuple[bool, ...]

    @property
    def active(self) -> int:
        """Targets; the first token of a text is never one."""
        return sum(self.mask[1:])


@dataclass(frozen=True)
class TargetTable:
    """What will be trained on, known before the first step."""

    examples: int
    rows: int
    tokens: int
    active: int
    smallest: int
    median: int
    largest: int
    cut: int
    fill: float

    def to_dict(self) -> dict[str, int | float]:
        """As plain JSON."""
        return dict(vars(self))

    def lines(self) -> list[tuple[str, str]]:
        """(name, value) to print."""
        share = self.active / max(1, self.tokens)
        return [
            (t("finetune.table.examples"), f"{self.examples:,}"),
            (t("finetune.table.rows"), f"{self.rows:,} ({self.fill:.0%})"),
            (t("finetune.table.tokens"), f"{self.tokens:,}"),
            (t("finetune.table.active"), f"{self.active:,} ({share:.0%})"),
            (t("finetune.table.spread"), f"{self.smallest} / {self.median} / {self.largest}"),
            (t("finetune.table.cut"), f"{self.cut:,}"),
        ]


def rendered(
    rows: Sequence[Conversation], tokenizer: Tokenizer, seq_len: int
) -> tuple[list[Example], list[Refused], int]:
    """Examples of at most `seq_len` + 1 tokens, rows that leave no target, and how many were cut at the end."""
    examples, refused, cut = [], [], 0
    for row in rows:
        full = render(row.messages, tokenizer)
        example = Example(row.id, tuple(full.ids[: seq_len + 1]), tuple(full.assistant_mask[: seq_len + 1]))
        if not example.active:
            refused.append(Refused(row.id, t("finetune.row.no_target", detail=str(len(full.ids)))))
            continue
        cut += len(full.ids) > seq_len + 1
        examples.append(example)
    return examples, refused, cut


def pack(examples: Sequence[Example], seq_len: int) -> list[list[Example]]:
    """Rows of whole examples, each row at most `seq_len` inputs: longest first, each into the fullest row that has room
    (best-fit decreasing, Johnson 1973). The result depends on the examples alone."""
    free: list[int] = []
    rows: list[list[Example]] = []
    for example in sorted(examples, key=lambda e: (-len(e.ids), e.id)):
        need = len(example.ids) - 1
        fitting = [(room, number) for number, room in enumerate(free) if room >= need]
        if fitting:
            _, number = min(fitting)
            rows[number].append(example)
            free[number] -= need
        else:
            rows.append([example])
            free.append(seq_len - need)
    return rows


def table(
    examples: Sequence[Example], packed: Sequence[Sequence[Example]], seq_len: int, cut: int
) -> TargetTable:
    """Counts over all examples."""
    active = sorted(example.active for example in examples)
    tokens = sum(len(example.ids) - 1 for example in examples)
    return TargetTable(
        examples=len(examples),
        rows=len(packed),
        tokens=tokens,
        active=sum(active),
        smallest=active[0],
        median=active[len(active) // 2],
        largest=active[-1],
        cut=cut,
        fill=tokens / (len(packed) * seq_len),
    )


class SupervisedSource:
    """The packed rows as a batch source: step s takes the next `batch_rows` rows of a keyed permutation, epoch by epoch."""

    def __init__(
        self, packed: Sequence[Sequence[Example]], *, seq_len: int, batch_rows: int, seed: int, pad_id: int
    ) -> None:
        self.packed = list(packed)
        self.seq_len = seq_len
        self.batch_rows = batch_rows
        self.seed = seed
        self.pad_id = pad_id

    @property
    def tokens_per_batch(self) -> int:
        """Positions of a step, padding included."""
        return self.batch_rows * self.seq_len

    def rows_of(self, step: int) -> list[int]:
        """Numbers of the packed rows of `step`."""
        n = len(self.packed)
        out = []
        for index in range(step * self.batch_rows, (step + 1) * self.batch_rows):
            epoch, place = divmod(index, n)
            out.append(int(Permutation(n, derive_key(self.seed, epoch))(place)[0]))
        return out

    def batch(self, step: int) -> Batch:
        """All rows of `step`."""
        numbers = self.rows_of(step)
        return collate([self.packed[n] for n in numbers], self.seq_len, self.pad_id, numbers)

    def micro_batches(self, step: int, rows: int, rank: int = 0, world: int = 1) -> Iterator[Batch]:
        """This rank's rows of `step`, at most `rows` at a time."""
        whole = self.batch(step)
        first, last = split_rows(self.batch_rows, rank, world)
        for start in range(first, last, rows):
            yield whole.slice(start, min(start + rows, last))

    def epoch(self, step: int) -> float:
        """Passes over the packed rows before `step`."""
        return step * self.batch_rows / len(self.packed)

    def state(self) -> dict[str, Any]:
        """What the order depends on."""
        return {
            "kind": "supervised",
            "rows": len(self.packed),
            "batch_rows": self.batch_rows,
            "seed": self.seed,
        }


def collate(rows: Sequence[Sequence[Example]], seq_len: int, pad_id: int, numbers: Sequence[int]) -> Batch:
    """Examples side by side in each row; the last token of one never predicts the first of the next."""
    shape = (len(rows), seq_len)
    inputs = torch.full(shape, pad_id, dtype=torch.int64)
    targets = torch.full(shape, IGNORE, dtype=torch.int64)
    documents = torch.full(shape, -1, dtype=torch.int32)
    for row, examples in enumerate(rows):
        start = 0
        for number, example in enumerate(examples):
            stop = start + len(example.ids) - 1
            ids = torch.tensor(example.ids)
            inputs[row, start:stop] = ids[:-1]
            active = torch.tensor(example.mask[1:])
            targets[row, start:stop] = torch.where(active, ids[1:], IGNORE)
            documents[row, start:stop] = number
            start = stop
    return Batch(inputs, targets, documents, torch.tensor(list(numbers)))
