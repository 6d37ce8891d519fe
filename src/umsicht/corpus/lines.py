"""Boilerplate lines: those that stand in many documents of one source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import pyarrow.parquet as pq

from umsicht.corpus.index import open_rows
from umsicht.corpus.kernels.spans import Spans, lines_of, spans_of, whole_hashes
from umsicht.corpus.near.tasks import GONE
from umsicht.recipe.corpus import LineSettings

COUNT = np.dtype([("hash", "<u8"), ("documents", "<u4"), ("source", "<u4")])
CODE_DOMAIN = "code"


@dataclass(frozen=True)
class LinesTask:
    """Lines of one partition."""

    table: str
    index: str
    sources: tuple[int, ...]
    """Numbers, among all sources, of the partition's own."""
    state: str
    offset: int
    output: str
    min_words: int


def is_code(table: Any) -> npt.NDArray[np.bool_]:
    """Rows that are code: their repetitions mean something."""
    found: npt.NDArray[np.bool_] = pc.equal(table.column("domain"), CODE_DOMAIN).to_numpy()
    return found


def line_hashes(spans: Spans, min_words: int) -> tuple[npt.NDArray[np.uint32], Spans, npt.NDArray[np.uint64]]:
    """Lines of at least so many words: text numbers, spans, hashes of their folded words."""
    text, lines = lines_of(spans)
    hashes, counts = whole_hashes(lines)
    long = counts >= min_words
    return text[long], lines.take(long), hashes[long]


def count_lines(task: LinesTask) -> dict[str, Any]:
    """Write in how many documents of the partition each line stands, by source, sorted by hash."""
    table = pq.read_table(task.table, columns=["text", "domain"])
    rows = open_rows(Path(task.index))
    state = np.load(task.state, mmap_mode="r")[task.offset : task.offset + len(rows)]
    chosen = np.flatnonzero((state != GONE) & ~is_code(table))
    text, _, hashes = line_hashes(spans_of(table.column("text")).take(chosen), task.min_words)
    source = (
        np.array(task.sources, np.uint64)[rows["source"][chosen][text]]
        if len(text)
        else text.astype(np.uint64)
    )
    once = np.unique(np.stack([hashes, source, text.astype(np.uint64)], 1), axis=0)
    pairs, counts = np.unique(once[:, :2], axis=0, return_counts=True)
    table_out = np.empty(len(pairs), COUNT)
    table_out["hash"], table_out["source"], table_out["documents"] = pairs[:, 0], pairs[:, 1], counts
    np.save(task.output, table_out)
    return {"file": task.output, "lines": len(pairs)}


@dataclass(frozen=True)
class MergeTask:
    """One range of hashes over all partitions."""

    first: int
    last: int
    files: tuple[str, ...]
    needed: tuple[int, ...]
    """Documents that a line must stand in, by source."""
    output: str


def merge_tasks(
    files: Sequence[str], lines: int, needed: Sequence[int], memory_bytes: int, folder: Path
) -> list[MergeTask]:
    """Ranges of the hash space, so many that one fits into memory."""
    passes = max(1, -(-lines * COUNT.itemsize * 4 // memory_bytes))
    edges = [(1 << 64) * number // passes for number in range(passes + 1)]
    return [
        MergeTask(
            edges[n], edges[n + 1] - 1, tuple(files), tuple(needed), str(folder / f"{n:05d}.merged.npy")
        )
        for n in range(passes)
    ]


def merge_lines(task: MergeTask) -> dict[str, Any]:
    """Write the lines of one hash range that are boilerplate, sorted by hash."""
    found = []
    for name in task.files:
        table = open_rows(Path(name))
        low = np.searchsorted(table["hash"], np.uint64(task.first), "left")
        high = np.searchsorted(table["hash"], np.uint64(task.last), "right")
        found.append(table[low:high])
    table = np.concatenate(found) if found else np.empty(0, COUNT)
    order = np.lexsort((table["source"], table["hash"]))
    table = table[order]
    new = np.ones(len(table), bool)
    new[1:] = (table["hash"][1:] != table["hash"][:-1]) | (table["source"][1:] != table["source"][:-1])
    starts = np.flatnonzero(new)
    merged = table[starts]
    if len(starts):
        merged["documents"] = np.add.reduceat(table["documents"].astype(np.int64), starts)
    needed = np.array(task.needed, np.int64)
    boilerplate = merged[merged["documents"] >= needed[merged["source"]]]
    np.save(task.output, boilerplate)
    return {"file": task.output, "lines": len(boilerplate)}


def needed_documents(documents: int, settings: LineSettings) -> int:
    """In how many documents of a source a line must stand to be boilerplate."""
    return max(settings.min_documents, int(np.ceil(documents * settings.share)))
