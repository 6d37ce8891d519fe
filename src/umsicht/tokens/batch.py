"""What a training step is fed: a batch, and the thing that gives the batch of any step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch

IGNORE = -100
"""The target of a position that is not trained on."""


@dataclass(frozen=True)
class Batch:
    """Rows for one (micro-)batch; targets are shifted here and nowhere else.

    `inputs` [rows, seq] int64; `targets` [rows, seq] int64, `targets[r, t]` is the token after `inputs[r, t]`, inactive
    ones are `IGNORE`; `document_ids` [rows, seq] int32, counted from 0 within each row, -1 on padding; `rows` [rows] int64, the
    sample numbers within the epoch.
    """

    inputs: torch.Tensor
    targets: torch.Tensor
    document_ids: torch.Tensor
    rows: torch.Tensor

    @property
    def active_targets(self) -> int:
        """How many positions are trained on."""
        return int((self.targets != IGNORE).sum())

    def slice(self, start: int, stop: int) -> Batch:
        """Rows `start` to `stop` (not included) as a batch of their own; shares memory."""
        return Batch(
            self.inputs[start:stop],
            self.targets[start:stop],
            self.document_ids[start:stop],
            self.rows[start:stop],
        )

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on another device."""
        return Batch(
            self.inputs.to(device, non_blocking=True),
            self.targets.to(device, non_blocking=True),
            self.document_ids.to(device, non_blocking=True),
            self.rows,
        )


@runtime_checkable
class BatchSource(Protocol):
    """The batch of any step as a pure function of settings and step number: the cursor is the step itself."""

    @property
    def tokens_per_batch(self) -> int:
        """Targets of a full global batch (rows × seq)."""
        ...

    def batch(self, step: int) -> Batch:
        """The whole global batch of `step` (counted from 0)."""
        ...

    def micro_batches(self, step: int, rows: int, rank: int = 0, world: int = 1) -> Iterator[Batch]:
        """This rank's part of the global batch of `step`, at most `rows` rows at a time."""
        ...

    def epoch(self, step: int) -> float:
        """Passes over the data that are complete when `step` begins."""
        ...

    def state(self) -> dict[str, Any]:
        """The settings that decide the order; a checkpoint stores them beside its step."""
        ...


def split_rows(total: int, rank: int, world: int) -> tuple[int, int]:
    """First and last-but-one row of `rank`'s equal part of a global batch of `total` rows.

    Equal parts matter: ranks that run different numbers of micro-batches wait for each other for ever.
    """
    if not 0 <= rank < world:
        raise ValueError(f"rank {rank} is not below the world size {world}")
    if total % world:
        raise ValueError(f"a global batch of {total} rows cannot be shared evenly by {world} ranks")
    part = total // world
    return rank * part, (rank + 1) * part
