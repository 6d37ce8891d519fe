"""Columns on their way to disk: partitions of documents with their index, and the table of what a task dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from umsicht.corpus.clean import Batch
from umsicht.corpus.document import DROPPED_SCHEMA, SCHEMA, write_table, write_working
from umsicht.corpus.index import ROW, index_path, save_rows, shingles_path, sketch_path
from umsicht.corpus.kernels.spans import Spans
from umsicht.corpus.label.batch import Labels
from umsicht.corpus.pieces import Pieces, lines_path, paragraph_sketches, paragraphs_path


def hashes(spans: Spans) -> tuple[list[str], npt.NDArray[np.uint64]]:
    """Id of every text (32 hex digits of its 128-bit XXH3), and the two halves of the hash (`[texts, 2]`)."""
    view = memoryview(spans.buffer)  # type: ignore[arg-type]  # numpy arrays are buffers; their hints do not say so
    digest = xxhash.xxh3_128_digest
    joined = b"".join(
        [digest(view[a:b]) for a, b in zip(spans.starts.tolist(), spans.ends.tolist(), strict=True)]
    )
    digits = joined.hex()
    names = [digits[at : at + 32] for at in range(0, len(digits), 32)]
    return names, np.frombuffer(joined, ">u8").astype(np.uint64).reshape(-1, 2)


@dataclass(frozen=True)
class Rows:
    """A labelled batch as columns."""

    batch: Batch
    texts: pa.Array
    sizes: npt.NDArray[np.int64]
    names: list[str]
    halves: npt.NDArray[np.uint64]
    labels: Labels
    sketches: tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]] | None = None
    """Bottom sketches and numbers of shingles, where near-duplicates are searched."""

    def table(self, rows: npt.NDArray[np.int64]) -> pa.Table:
        """Some of the rows."""
        n = len(rows)
        whole = n == len(self.names)
        chosen = rows.tolist()

        def of(values: Sequence[Any]) -> Sequence[Any]:
            return values if whole else [values[i] for i in chosen]

        labels = self.labels
        columns = {
            "id": pa.array(of(self.names)),
            "text": self.texts if whole else self.texts.take(pa.array(rows)),
            "source": pa.repeat(pa.scalar(self.batch.info.name), n),
            "domain": pa.array(of(self.batch.domains)),
            "language": pa.array(of(self.batch.languages)),
            "licence": pa.array(of(self.batch.licences)),
            "origin": pa.array(of(self.batch.origins)),
            "bytes": pa.array(self.sizes[rows]),
            "rule": pa.array(of(labels.rule)),
            "notice": pa.array(labels.notice[rows]),
            "promotional": pa.array(of(labels.promotional), pa.float32()),
            "scores": pa.array(of(labels.scores), pa.string()),
        }
        return pa.table(columns, SCHEMA)


@dataclass
class Partition:
    """One partition while it fills."""

    tables: list[pa.Table] = field(default_factory=list)
    index: list[npt.NDArray[Any]] = field(default_factory=list)
    sketches: list[tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]] = field(default_factory=list)
    slices: dict[str, int] = field(default_factory=dict)
    sources: dict[str, int] = field(default_factory=dict)
    pieces: list[Pieces] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0

    def add(self, found: Rows, rows: npt.NDArray[np.int64], pieces: Pieces) -> None:
        """Documents that are kept, and their pieces."""
        batch, slices = found.batch, self.slices
        index = np.empty(len(rows), ROW)
        index["hi"], index["lo"] = found.halves[rows, 0], found.halves[rows, 1]
        index["bytes"] = found.sizes[rows]
        index["slice"] = [
            slices.setdefault(f"{batch.domains[i]}.{batch.languages[i]}", len(slices)) for i in rows.tolist()
        ]
        index["source"] = self.sources.setdefault(batch.info.name, len(self.sources))
        self.tables.append(found.table(rows))
        self.index.append(index)
        if found.sketches is not None:
            sketches, sizes = found.sketches
            self.sketches.append((sketches[rows], sizes[rows]))
        self.pieces.append(pieces)
        self.rows += len(rows)
        self.bytes += int(found.sizes[rows].sum())

    def write(self, folder: Path, key: str) -> dict[str, Any]:
        """Partition and index to disk; returns what later stages need to know of it."""
        write_working(pa.concat_tables(self.tables), folder / f"{key}.arrow")
        save_rows(index_path(folder, key), self.index)
        if self.sketches:
            save_rows(sketch_path(folder, key), [sketches for sketches, _ in self.sketches])
            save_rows(shingles_path(folder, key), [sizes for _, sizes in self.sketches])
        save_rows(lines_path(folder, key), [pieces.lines for pieces in self.pieces])
        save_rows(paragraphs_path(folder, key), [pieces.paragraphs for pieces in self.pieces])
        sketches, sizes = paragraph_sketches(folder, key)
        save_rows(sketches, [pieces.sketches for pieces in self.pieces])
        save_rows(sizes, [pieces.sizes for pieces in self.pieces])
        return {
            "key": key,
            "rows": self.rows,
            "bytes": self.bytes,
            "paragraphs": sum(len(pieces.paragraphs) for pieces in self.pieces),
            "slices": list(self.slices),
            "sources": list(self.sources),
        }


class Dropped:
    """Documents and members that go in this stage, each with its reason."""

    def __init__(self) -> None:
        self.tables: list[pa.Table] = []
        self.reasons: list[tuple[str, str, int]] = []

    def add(
        self, found: Rows, rows: npt.NDArray[np.int64], stage: str, why: Sequence[tuple[str, str]]
    ) -> None:
        """Documents of a batch; `why` are reason and detail of every row."""
        table = found.table(rows)
        for name, values in (
            ("stage", [stage] * len(rows)),
            ("reason", [reason for reason, _ in why]),
            ("detail", [detail for _, detail in why]),
        ):
            table = table.append_column(name, pa.array(values, pa.string()))
        self.tables.append(table.cast(DROPPED_SCHEMA))
        self.reasons += [(stage, reason, 1) for reason, _ in why]

    def add_broken(self, rows: Sequence[dict[str, Any]]) -> None:
        """Members that could not be read."""
        if rows:
            self.tables.append(pa.Table.from_pylist(list(rows), DROPPED_SCHEMA))
            self.reasons += [(row["stage"], row["reason"], 1) for row in rows]

    def write(self, path: Path) -> str:
        """All of them to disk; returns the file's name, empty where there are none."""
        if not self.tables:
            return ""
        write_table(pa.concat_tables(self.tables), path)
        return path.name
