"""Near-duplicates among the paragraphs of documents that are left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umsicht.corpus.context import Context, Partitions
from umsicht.corpus.index import DROP, open_rows, save_array
from umsicht.corpus.near.run import NearJob, find_near
from umsicht.corpus.near.tasks import GONE, SpanFile
from umsicht.corpus.pieces import paragraph_sketches, paragraphs_path
from umsicht.words import t


def run(context: Context, partitions: Partitions) -> str:
    """File of the paragraphs that are cut, sorted by partition; empty where the stage is switched off."""
    if not context.settings.dedupe.paragraphs.enabled:
        return ""
    folder = context.work.stage("paragraphs")
    state, documents = _files(context, partitions, folder)
    job = _job(context, partitions, state, documents)
    result = find_near(job, context.work, context.engine, context.progress, t("corpus.stage.paragraphs"))
    drops = _by_partition(result.drops, partitions, documents)
    compared = int((np.load(state, mmap_mode="r") != GONE).sum())
    context.notes["paragraphs"] = {"compared": compared, "cut": len(drops), "verified": result.verified}
    return str(save_array(folder / "drops.npy", drops))


def _files(context: Context, partitions: Partitions, folder: Path) -> tuple[Path, Path]:
    """Files of every paragraph's state and document. They grow with the corpus, so this process lets go of them before the search starts."""
    total = sum(part.paragraphs for part in partitions.parts)
    paths = folder / "state.npy", folder / "documents.npy"
    state, documents = (
        np.lib.format.open_memmap(path, "w+", kind, (total,))
        for path, kind in zip(paths, (np.uint8, np.uint32), strict=True)
    )
    of_documents = np.load(context.state, mmap_mode="r")
    first = 0
    for part, offset in zip(partitions.parts, partitions.offsets, strict=True):
        spans = open_rows(paragraphs_path(partitions.folder, part.key))
        mine = spans["row"] + np.uint32(offset)
        documents[first : first + part.paragraphs] = mine
        state[first : first + part.paragraphs] = of_documents[mine]
        first += part.paragraphs
    return paths


def _job(context: Context, partitions: Partitions, state: Path, documents: Path) -> NearJob:
    near = context.settings.dedupe.near
    return NearJob(
        "paragraph",
        [_texts(partitions.folder, part.key, part.table) for part in partitions.parts],
        [part.paragraphs for part in partitions.parts],
        state,
        documents,
        near.words,
        near.jaccard,
        near.containment,
        context.settings.engine.memory_bytes,
        context.settings.dedupe.paragraphs.min_shingles,
    )


def _texts(folder: Path, key: str, table: Path) -> SpanFile:
    sketches, sizes = paragraph_sketches(folder, key)
    return SpanFile(str(table), str(paragraphs_path(folder, key)), (str(sketches), str(sizes)))


def _by_partition(found: npt.NDArray[Any], partitions: Partitions, documents: Path) -> npt.NDArray[Any]:
    """What goes as `DROP`: the paragraph by its place in its partition, what stays by the place of its document."""
    drops = np.empty(len(found), DROP)
    counts = [part.paragraphs for part in partitions.parts]
    drops["part"], drops["row"] = _places(found["later"], np.cumsum([0, *counts[:-1]]))
    kept = np.load(documents, mmap_mode="r")[found["earlier"]]
    drops["kept_part"], drops["kept_row"] = _places(kept, np.array(partitions.offsets))
    drops["score"] = found["score"]
    drops.sort(order=["part", "row"])
    return drops


def _places(
    numbers: npt.NDArray[Any], offsets: npt.NDArray[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Partition and place in it of what is numbered through all partitions."""
    part = np.searchsorted(offsets, numbers, "right") - 1
    return part, numbers - offsets[part]
