"""Exact duplicates by 128-bit hash of the normalised text, in as many passes over the (small) indexes as the memory setting asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from umsicht.corpus.index import DROP, ROW, open_rows

BYTES_A_ROW = 40
"""Memory of one document in a pass: hash, position, order."""


@dataclass(frozen=True)
class ExactTask:
    """One range of hash prefixes over all partitions."""

    number: int
    first: int
    last: int
    """Hashes whose upper half is in `first <= hi <= last`."""
    indexes: tuple[str, ...]
    output: str


def exact_tasks(indexes: Sequence[Path], rows: int, memory_bytes: int, folder: Path) -> list[ExactTask]:
    """Ranges of the hash space, so many that one fits into memory."""
    passes = max(1, -(-rows * BYTES_A_ROW // memory_bytes))
    edges = [(1 << 64) * number // passes for number in range(passes + 1)]
    names = tuple(str(path) for path in indexes)
    return [
        ExactTask(
            number, edges[number], edges[number + 1] - 1, names, str(folder / f"{number:05d}.drops.npy")
        )
        for number in range(passes)
    ]


def find_exact(task: ExactTask) -> dict[str, Any]:
    """Write the drops of one hash range, sorted by partition: of equal texts the first in reading order stays."""
    found = []
    positions = []
    for part, name in enumerate(task.indexes):
        rows = open_rows(Path(name))
        hi = rows["hi"]
        inside = np.flatnonzero((hi >= np.uint64(task.first)) & (hi <= np.uint64(task.last)))
        found.append(rows[inside])
        where = np.empty((len(inside), 2), np.uint32)
        where[:, 0] = part
        where[:, 1] = inside
        positions.append(where)
    rows = np.concatenate(found) if found else np.empty(0, ROW)
    where = np.concatenate(positions) if positions else np.empty((0, 2), np.uint32)
    order = np.lexsort((where[:, 1], where[:, 0], rows["lo"], rows["hi"]))
    rows, where = rows[order], where[order]
    same = np.zeros(len(rows), bool)
    same[1:] = (rows["hi"][1:] == rows["hi"][:-1]) & (rows["lo"][1:] == rows["lo"][:-1])
    kept = np.maximum.accumulate(np.where(same, 0, np.arange(len(rows)))) if len(rows) else np.empty(0, int)
    drops = np.empty(int(same.sum()), DROP)
    drops["part"], drops["row"] = where[same, 0], where[same, 1]
    drops["kept_part"], drops["kept_row"] = where[kept[same], 0], where[kept[same], 1]
    drops["score"] = 1.0
    drops.sort(order=["part", "row"])
    np.save(task.output, drops)
    return {"file": task.output, "drops": len(drops)}
