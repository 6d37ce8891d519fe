"""Which rows of the global batch a rank computes, and in which pieces.

The global batch of a step is the same at every world size; only its cut differs. Where the rows do not divide evenly, some ranks hold one row
more, and the others fill up with a row that has no active target: every rank then runs the same number of micro-batches, so that none waits
for ever in an exchange.
"""

from __future__ import annotations

import torch

from umsicht.tokens.batch import IGNORE, Batch, BatchSource


def bounds(total: int, rank: int, world: int) -> tuple[int, int]:
    """First row and row after the last of `rank`'s part of `total` rows; parts differ by one row at most, in rank order."""
    part, longer = divmod(total, world)
    first = rank * part + min(rank, longer)
    return first, first + part + (rank < longer)


def micro_batches(
    source: BatchSource, step: int, rows: int, *, total: int, rank: int, world: int
) -> list[Batch]:
    """This rank's micro-batches of update `step` (0-based), at most `rows` rows each; as many on every rank. `total`: rows of a global batch."""
    if total % world == 0:
        return list(source.micro_batches(step, rows, rank, world))
    whole = source.batch(step)
    first, last = bounds(total, rank, world)
    mine = [whole.slice(start, min(start + rows, last)) for start in range(first, last, rows)]
    most = -(-total // world)
    needed = -(-most // rows)
    return mine + [nothing(whole) for _ in range(needed - len(mine))]


def nothing(batch: Batch) -> Batch:
    """One row without an active target and without a sample number: it adds exactly zero to loss and gradient."""
    row = batch.slice(0, 1)
    return Batch(
        row.inputs,
        torch.full_like(row.targets, IGNORE),
        row.document_ids,
        torch.zeros(0, dtype=row.rows.dtype),
    )


def shorter(batch: Batch, seq_len: int) -> Batch:
    """The same tokens in rows of `seq_len`: targets were shifted before, so no target is lost, only context."""
    rows, length = batch.inputs.shape
    if length % seq_len:
        return batch
    cut = (rows * (length // seq_len), seq_len)
    return Batch(
        batch.inputs.reshape(cut), batch.targets.reshape(cut), batch.document_ids.reshape(cut), batch.rows
    )


def joined(batches: list[Batch]) -> Batch:
    """Micro-batches as one batch."""
    if len(batches) == 1:
        return batches[0]
    return Batch(
        torch.cat([b.inputs for b in batches]),
        torch.cat([b.targets for b in batches]),
        torch.cat([b.document_ids for b in batches]),
        torch.cat([b.rows for b in batches]),
    )
