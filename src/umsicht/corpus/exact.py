"""Exact duplicates by 128-bit hash of the normalised text, in as many passes over the (small) indexes as the memory setting asks for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from umsicht.corpus.context import Context, Partitions
from umsicht.corpus.index import DROP, open_rows
from umsicht.corpus.listing import open_listing
from umsicht.words import t

BYTES_A_ROW = 200
"""Memory of one document in a pass: hash and position as read, put together and in order, and what ordering takes."""


@dataclass(frozen=True)
class ExactTask:
    """One range of hash prefixes over all partitions."""

    number: int
    first: int
    last: int
    """Hashes whose upper half is in `first <= hi <= last`."""
    indexes: str
    """List of the indexes of all partitions."""
    output: str


def run(context: Context, partitions: Partitions) -> list[str]:
    """Files of the documents that go, each sorted by partition."""
    tasks = exact_tasks(
        partitions.listing,
        sum(partitions.counts),
        context.task_memory_bytes,
        context.work.stage("exact"),
    )
    return [result["file"] for result in context.run("exact", find_exact, tasks, t("corpus.stage.exact"))]


def exact_tasks(indexes: str, rows: int, memory_bytes: int, folder: Path) -> list[ExactTask]:
    """Ranges of the hash space, so many that one fits into memory; `indexes` is the list of the files of `rows` documents."""
    passes = max(1, -(-rows * BYTES_A_ROW // memory_bytes))
    edges = [(1 << 64) * number // passes for number in range(passes + 1)]
    return [
        ExactTask(
            number, edges[number], edges[number + 1] - 1, indexes, str(folder / f"{number:05d}.drops.npy")
        )
        for number in range(passes)
    ]


def find_exact(task: ExactTask) -> dict[str, Any]:
    """Write the drops of one hash range, sorted by partition: of equal texts the first in reading order stays."""
    found = [np.empty((0, 2), np.uint64)]
    positions = [np.empty((0, 2), np.uint32)]
    for part, name in enumerate(open_listing(task.indexes).files):
        rows = open_rows(Path(name))
        hi = rows["hi"]
        inside = np.flatnonzero((hi >= np.uint64(task.first)) & (hi <= np.uint64(task.last)))
        found.append(np.stack([hi[inside], rows["lo"][inside]], 1))
        positions.append(np.stack([np.full(len(inside), part, np.uint32), inside.astype(np.uint32)], 1))
    hashes, where = np.concatenate(found), np.concatenate(positions)
    del found, positions
    # Stable, and rows come in reading order: of equal hashes the first that was read is first.
    order = np.lexsort((hashes[:, 1], hashes[:, 0]))
    hashes, where = hashes[order], where[order]
    same = np.zeros(len(hashes), bool)
    same[1:] = (hashes[1:] == hashes[:-1]).all(1)
    again = np.flatnonzero(same)
    first = np.flatnonzero(~same)
    kept = where[first[np.searchsorted(first, again) - 1]]
    drops = np.empty(len(again), DROP)
    drops["part"], drops["row"] = where[again, 0], where[again, 1]
    drops["kept_part"], drops["kept_row"] = kept[:, 0], kept[:, 1]
    drops["score"] = 1.0
    drops.sort(order=["part", "row"])
    np.save(task.output, drops)
    return {"file": task.output, "drops": len(drops)}
