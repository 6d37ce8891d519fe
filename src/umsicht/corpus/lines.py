"""Boilerplate lines: those that stand in many documents of one source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umsicht.corpus import examples
from umsicht.corpus.context import Context, Partitions
from umsicht.corpus.index import open_rows
from umsicht.corpus.kernels.spans import different
from umsicht.corpus.listing import open_listing, save_listing
from umsicht.corpus.near.tasks import GONE
from umsicht.corpus.pieces import lines_path
from umsicht.recipe.corpus import LineSettings
from umsicht.words import t

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


def run(context: Context, partitions: Partitions) -> list[str]:
    """Files of the lines that are boilerplate, one a range of hashes; none where the stage is switched off."""
    settings = context.settings.dedupe.lines
    if not settings.enabled:
        return []
    folder, title = context.work.stage("lines"), t("corpus.stage.lines")
    counted = context.run("lines", count_lines, _count_tasks(context, partitions, folder), title)
    needed = [
        needed_documents(context.ledger.get(name, "normalise")[0], settings) for name in context.source_names
    ]
    merges = merge_tasks(
        save_listing(folder / "counted.json", [result["file"] for result in counted]),
        sum(result["lines"] for result in counted),
        needed,
        context.task_memory_bytes,
        folder,
    )
    merged = context.run("lines-merge", merge_lines, merges, title)
    context.notes["top_lines"] = examples.top_lines(
        top_lines([np.load(result["top"]) for result in merged]),
        context.source_names,
        [part.table for part in partitions.parts],
    )
    return [result["file"] for result in merged]


def _count_tasks(context: Context, partitions: Partitions, folder: Path) -> list[LinesTask]:
    return [
        LinesTask(
            number,
            str(lines_path(partitions.folder, part.key)),
            str(part.index),
            part.sources,
            str(context.state),
            offset,
            str(folder / f"{part.key}.lines.npy"),
        )
        for number, (part, offset) in enumerate(zip(partitions.parts, partitions.offsets, strict=True))
    ]


@dataclass(frozen=True)
class LinesTask:
    """Lines of one partition."""

    number: int
    lines: str
    """File of its lines: `LINE`, document by document."""
    index: str
    sources: tuple[int, ...]
    """Numbers, among all sources, of the partition's own."""
    state: str
    offset: int
    output: str


def count_lines(task: LinesTask) -> dict[str, Any]:
    """Write in how many documents of the partition each line stands, by source, sorted by hash."""
    lines, rows = open_rows(Path(task.lines)), open_rows(Path(task.index))
    state = np.load(task.state, mmap_mode="r")[task.offset : task.offset + len(rows)]
    row = np.ascontiguousarray(lines["row"])
    stays = state[row] != GONE
    row, hashes, start, end = row[stays], lines["hash"][stays], lines["start"][stays], lines["end"][stays]
    source = np.array(task.sources, np.uint64)[rows["source"][row]]
    order = _by_line(hashes, source, row)
    counted = _documents_by_line(
        hashes[order], source[order], row[order], (end - start)[order].astype(np.int64)
    )
    first = order[counted["row"]]
    counted["part"], counted["row"] = task.number, row[first]
    counted["start"], counted["end"] = start[first], end[first]
    np.save(task.output, counted)
    return {"file": task.output, "lines": len(counted)}


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
    files: str
    """List of what was counted, by partition."""
    needed: tuple[int, ...]
    """Documents that a line must stand in, by source."""
    output: str


def merge_tasks(
    files: str, lines: int, needed: Sequence[int], memory_bytes: int, folder: Path
) -> list[MergeTask]:
    """Ranges of the hash space, so many that one fits into memory."""
    passes = max(1, -(-lines * BYTES_A_LINE // memory_bytes))
    edges = [(1 << 64) * number // passes for number in range(passes + 1)]
    return [
        MergeTask(edges[n], edges[n + 1] - 1, files, tuple(needed), str(folder / f"{n:05d}.merged.npy"))
        for n in range(passes)
    ]


def merge_lines(task: MergeTask) -> dict[str, Any]:
    """Write the lines of one hash range that are boilerplate, sorted by hash."""
    found = []
    for name in open_listing(task.files).files:
        counted = open_rows(Path(name))
        low = np.searchsorted(counted["hash"], np.uint64(task.first), "left")
        high = np.searchsorted(counted["hash"], np.uint64(task.last), "right")
        # A copy: a slice would keep the pages of every file mapped that the search has touched, and there are as many files as the corpus is large.
        found.append(np.array(counted[low:high]))
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
