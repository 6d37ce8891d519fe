"""Validation documents that are made of training text after all (template pages, long quotations) leave validation.

Near-duplicates of validation documents have left training by now. What is left are documents whose runs of 13 words stand, piece by piece, in several
training documents: none of those is a copy, but together they know the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from umsicht.corpus.document import DROPPED_SCHEMA, read_columns, write_table
from umsicht.corpus.kernels.scan import build_filter, build_table
from umsicht.corpus.kernels.spans import different, runs_in, spans_of
from umsicht.corpus.protect import RUN, runs_of

LARGEST_OVERLAP = 0.5


@dataclass(frozen=True)
class OverlapTask:
    """One training partition, and the table of validation runs."""

    train: str
    table: str
    output: str


def find_overlap(task: OverlapTask) -> dict[str, Any]:
    """Write the validation runs that stand in one training partition."""
    with np.load(task.table) as stored:
        table, mask = stored["table"], stored["mask"]
    spans = spans_of(read_columns(task.train, ["text"]).column("text"))
    _, found = runs_in(spans, np.array([RUN], np.int64), table, mask)
    np.save(task.output, different(found))
    return {"file": task.output}


@dataclass(frozen=True)
class ValidationRuns:
    """Runs of all validation documents, and the document of each."""

    hashes: npt.NDArray[np.uint64]
    owners: npt.NDArray[np.uint32]
    documents: int

    def save(self, path: Path) -> None:
        """The table that workers look up in."""
        known = different(self.hashes)
        np.savez(path, table=build_table(known), mask=build_filter(known))

    def overlap(self, found: Sequence[str]) -> npt.NDArray[np.float64]:
        """Share of every document's runs that stand in training."""
        seen = (
            different(np.concatenate([np.load(name) for name in found])) if found else np.empty(0, np.uint64)
        )
        inside = np.isin(self.hashes, seen)
        total = np.bincount(self.owners, minlength=self.documents)
        return np.bincount(self.owners, weights=inside, minlength=self.documents) / np.maximum(total, 1)


def validation_runs(tables: Sequence[pa.Table]) -> ValidationRuns:
    """Runs of 13 words of validation documents; shorter documents have none."""
    texts = [text for table in tables for text in table.column("text").to_pylist()]
    hashes, owners, lengths = runs_of(texts)
    long = lengths[owners] >= RUN if len(owners) else np.zeros(0, bool)
    return ValidationRuns(hashes[long], owners[long], len(texts))


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
