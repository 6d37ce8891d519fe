"""Boilerplate lines: those that stand in many documents of one source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from umsicht.corpus.document import read_columns
from umsicht.corpus.index import open_rows
from umsicht.corpus.kernels.spans import Spans, different, lines_of, spans_of, whole_hashes
from umsicht.corpus.near.tasks import GONE
from umsicht.recipe.corpus import LineSettings

COUNT = np.dtype(
    [
        ("hash", "<u8"),
        ("documents", "<u4"),
        ("source", "<u4"),
        ("bytes", "<u8"),
        ("part", "<u4"),
        ("row", "<u4"),
        ("start", "<u4"),
        ("end", "<u4"),
    ]
)
"""A line of a source: in how many documents it stands, bytes of all its occurrences, and the first of them."""
BYTES_A_LINE = 400
"""Memory of one line in a pass, as measured: its row read, sorted and merged."""
TOP_LINES = 100
CODE_DOMAIN = "code"


@dataclass(frozen=True)
class LinesTask:
    """Lines of one partition."""

    number: int
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
    table = read_columns(task.table, ["text", "domain"])
    rows = open_rows(Path(task.index))
    state = np.load(task.state, mmap_mode="r")[task.offset : task.offset + len(rows)]
    chosen = np.flatnonzero((state != GONE) & ~is_code(table))
    spans = spans_of(table.column("text"))
    text, lines, hashes = line_hashes(spans.take(chosen), task.min_words)
    source = (
        np.array(task.sources, np.uint64)[rows["source"][chosen][text]]
        if len(text)
        else text.astype(np.uint64)
    )
    order = _by_line(hashes, source, text)
    table_out = _documents_by_line(
        hashes[order], source[order], text[order], (lines.ends - lines.starts)[order]
    )
    first = order[table_out["row"]]
    row = chosen[text[first]]
    table_out["part"], table_out["row"] = task.number, row
    table_out["start"] = lines.starts[first] - spans.starts[row]
    table_out["end"] = lines.ends[first] - spans.starts[row]
    np.save(task.output, table_out)
    return {"file": task.output, "lines": len(table_out)}


def _by_line(
    hashes: npt.NDArray[np.uint64], source: npt.NDArray[Any], text: npt.NDArray[np.uint32]
) -> npt.NDArray[np.int64]:
    """An order by line, source, text. Lines come text by text, so that a stable order by line alone will do for one source."""
    if len(different(source)) > 1:
        return np.lexsort((text, source, hashes))
    return np.argsort(hashes, kind="stable")


def _documents_by_line(
    hashes: npt.NDArray[np.uint64],
    source: npt.NDArray[np.uint64],
    text: npt.NDArray[np.uint32],
    sizes: npt.NDArray[np.int64],
) -> npt.NDArray[Any]:
    """In how many texts every line stands, by source; `row` is the place of its first occurrence in what is given."""
    new = np.ones(len(hashes), bool)
    new[1:] = (hashes[1:] != hashes[:-1]) | (source[1:] != source[:-1])
    once = new.copy()
    once[1:] |= text[1:] != text[:-1]
    starts = np.flatnonzero(new)
    found = np.zeros(len(starts), COUNT)
    found["hash"], found["source"], found["row"] = hashes[starts], source[starts], starts
    if len(starts):
        found["documents"] = np.add.reduceat(once.astype(np.int64), starts)
        found["bytes"] = np.add.reduceat(sizes, starts)
    return found


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
    passes = max(1, -(-lines * BYTES_A_LINE // memory_bytes))
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
    table = table[_by_line(table["hash"], table["source"], table["source"])]
    new = np.ones(len(table), bool)
    new[1:] = (table["hash"][1:] != table["hash"][:-1]) | (table["source"][1:] != table["source"][:-1])
    starts = np.flatnonzero(new)
    merged = table[starts]
    if len(starts):
        merged["documents"] = np.add.reduceat(table["documents"].astype(np.int64), starts)
        merged["bytes"] = np.add.reduceat(table["bytes"], starts)
    needed = np.array(task.needed, np.int64)
    going = merged["documents"] >= needed[merged["source"]]
    boilerplate = merged[going]
    np.save(task.output, boilerplate)
    staying = merged[~going & (merged["documents"] > 1)]
    np.save(f"{task.output}.top.npy", top_lines([staying]))
    return {"file": task.output, "top": f"{task.output}.top.npy", "lines": len(boilerplate)}


def top_lines(tables: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Of every source the lines with the most bytes, most first."""
    table = np.concatenate(tables) if tables else np.empty(0, COUNT)
    kept = [np.empty(0, COUNT)]
    for source in different(table["source"]).tolist():
        mine = table[table["source"] == source]
        order = np.lexsort((mine["hash"], -mine["bytes"].astype(np.int64)))
        kept.append(mine[order[:TOP_LINES]])
    return np.concatenate(kept)


def needed_documents(documents: int, settings: LineSettings) -> int:
    """In how many documents of a source a line must stand to be boilerplate."""
    return max(settings.min_documents, int(np.ceil(documents * settings.share)))
