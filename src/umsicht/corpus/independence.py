"""Validation documents that are made of training text after all (template pages, long quotations) leave validation.

Near-duplicates of validation documents have left training by now. What is left are documents whose runs of 13 words stand, piece by piece, in several
training documents: none of those is a copy, but together they know the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from umsicht.corpus.context import Context, Partitions
from umsicht.corpus.document import DROPPED_SCHEMA, read_columns, write_table
from umsicht.corpus.kernels.scan import build_filter, build_table
from umsicht.corpus.kernels.spans import Spans, different, run_sets, runs_in, spans_of
from umsicht.corpus.listing import open_listing, save_listing
from umsicht.corpus.protect import RUN
from umsicht.corpus.work import Result
from umsicht.words import t

LARGEST_OVERLAP = 0.5


def run(context: Context, partitions: Partitions, finished: Sequence[Result]) -> list[Path]:
    """Take validation documents out that training knows piece by piece; returns the files of what went. Changes results of `finish` to tell of it."""
    write, folder = context.work.stage("write"), context.work.stage("overlap")
    holders = [result for result in finished if result["files"]["val"]]
    if not holders:
        return []
    overlap = _overlap(context, partitions, finished, [write / result["files"]["val"] for result in holders])
    left, first = [], 0
    for result in holders:
        path = write / result["files"]["val"]
        mine = overlap[first : first + pq.ParquetFile(path).metadata.num_rows]
        first += len(mine)
        if (mine > LARGEST_OVERLAP).any():
            left.append(_leave(result, pq.read_table(path), mine, folder))
    return left


def _overlap(
    context: Context, partitions: Partitions, finished: Sequence[Result], files: Sequence[Path]
) -> npt.NDArray[np.float64]:
    """Share of every validation document in `files`, in order, that stands in training."""
    write, folder = context.work.stage("write"), context.work.stage("overlap")
    title = t("corpus.stage.overlap")
    runs = RunsTask(save_listing(folder / "validation.json", files), str(folder))
    known = context.run("validation-runs", validation_runs, [runs], title)
    tasks = [
        OverlapTask(
            str(part.table),
            str(write / result["training"]),
            str(folder / "table.npz"),
            str(folder / f"{result['files']['train']}.npy"),
        )
        for part, result in zip(partitions.parts, finished, strict=True)
        if result["files"]["train"]
    ]
    found = context.run("overlap", find_overlap, tasks, title)
    return overlap_of(folder, known[0]["documents"], [result["file"] for result in found])


def _leave(result: Result, table: pa.Table, overlap: npt.NDArray[np.float64], folder: Path) -> Path:
    """Part the validation documents of one partition, and change its result accordingly."""
    name = result["files"]["val"]
    gone = folder / f"{name}.gone.parquet"
    stays = part_ways(table, overlap, folder / name, gone)
    result["files"]["val"] = f"../overlap/{name}" if stays.any() else ""
    result["reasons"].append(["train", "overlaps-training", int((~stays).sum())])
    for row in table.select(["domain", "language", "bytes"]).filter(pa.array(~stays)).to_pylist():
        entry = result["slices"][f"{row['domain']}.{row['language']}"]
        entry["val"] = [entry["val"][0] - 1, entry["val"][1] - row["bytes"]]
        if not entry["val"][0]:
            del entry["val"]
    return gone


@dataclass(frozen=True)
class OverlapTask:
    """One partition as it was read, what training has of it, and the table of validation runs."""

    read: str
    training: str
    table: str
    output: str


def save_training(path: Path, rows: npt.NDArray[np.bool_], changed: Mapping[int, bytes]) -> None:
    """Keep which rows of a partition are in training, and the texts of those that are no longer what was read."""
    same, others = rows.copy(), [row for row in changed if rows[row]]
    same[others] = False
    texts = [changed[row] for row in others]
    offsets = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([len(text) for text in texts], out=offsets[1:])
    np.savez(path, same=np.flatnonzero(same), texts=np.frombuffer(b"".join(texts), np.uint8), offsets=offsets)


def _training(task: OverlapTask) -> tuple[Spans, Spans]:
    """Texts of training that are what was read, and those that are not."""
    with np.load(task.training) as stored:
        same, texts, offsets = stored["same"], stored["texts"], stored["offsets"]
    whole = spans_of(read_columns(task.read, ["text"]).column("text"))
    return whole.take(same), Spans(texts, offsets[:-1].copy(), offsets[1:].copy())


def find_overlap(task: OverlapTask) -> Result:
    """Write the validation runs that stand in what training has of one partition."""
    with np.load(task.table) as stored:
        table, mask = stored["table"], stored["mask"]
    runs = [runs_in(spans, np.array([RUN], np.int64), table, mask)[1] for spans in _training(task)]
    np.save(task.output, different(np.concatenate(runs)))
    return {"file": task.output}


@dataclass(frozen=True)
class RunsTask:
    """All files of validation documents, and the folder for what is known of them."""

    files: str
    """Their list."""
    folder: str


def validation_runs(task: RunsTask) -> Result:
    """Write the runs of 13 words of all validation documents (`hashes.npy`, and the document of each, `owners.npy`) and the table that they are
    looked up in (`table.npz`). Files are read one at a time; documents shorter than a run have none.
    """
    hashes, owners, documents = [np.empty(0, np.uint64)], [np.empty(0, np.uint32)], 0
    for name in open_listing(task.files).files:
        spans = spans_of(read_columns(name, ["text"]).column("text"))
        found, offsets, _ = run_sets(spans, RUN, RUN, np.ones(len(spans), bool))
        hashes.append(found.copy())
        owners.append(
            np.repeat(np.arange(documents, documents + len(spans), dtype=np.uint32), np.diff(offsets))
        )
        documents += len(spans)
    folder, together = Path(task.folder), np.concatenate(hashes)
    np.save(folder / "hashes.npy", together)
    np.save(folder / "owners.npy", np.concatenate(owners))
    known = different(together)
    np.savez(folder / "table.npz", table=build_table(known), mask=build_filter(known))
    return {"documents": documents}


def overlap_of(folder: Path, documents: int, found: Sequence[str]) -> npt.NDArray[np.float64]:
    """Share of every validation document's runs that `find_overlap` found in training."""
    hashes, owners = np.load(folder / "hashes.npy"), np.load(folder / "owners.npy")
    seen = different(np.concatenate([np.empty(0, np.uint64), *(np.load(name) for name in found)]))
    total = np.bincount(owners, minlength=documents)
    inside = np.bincount(owners, weights=np.isin(hashes, seen), minlength=documents)
    return inside / np.maximum(total, 1)


def part_ways(
    table: pa.Table, overlap: npt.NDArray[np.float64], kept: Path, gone: Path
) -> npt.NDArray[np.bool_]:
    """Write what stays in validation and what leaves it; returns which rows stay."""
    stays = overlap <= LARGEST_OVERLAP
    if stays.any():
        write_table(table.filter(pa.array(stays)), kept)
    leaving = table.filter(pa.array(~stays))
    n = leaving.num_rows
    detail = [f"{share:.0%} of its 13-word runs stand in training" for share in overlap[~stays]]
    for name, values in (("stage", ["train"] * n), ("reason", ["overlaps-training"] * n), ("detail", detail)):
        leaving = leaving.append_column(name, pa.array(values, pa.string()))
    if n:
        write_table(leaving.cast(DROPPED_SCHEMA), gone)
    return stays
