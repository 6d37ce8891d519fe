"""A document, and the tables that documents travel in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

Split = Literal["train", "val", "dropped"]

CODE_DOMAIN = "code"
"""Programs: their repetitions mean something."""

CORE = ("id", "text", "source", "domain", "language", "licence", "origin")

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("text", pa.large_string()),
        ("source", pa.string()),
        ("domain", pa.string()),
        ("language", pa.string()),
        ("licence", pa.string()),
        ("origin", pa.string()),
        ("bytes", pa.int64()),
        ("rule", pa.string()),
        ("notice", pa.bool_()),
        ("promotional", pa.float32()),
        ("scores", pa.string()),
    ]
)
"""Columns of every split. `rule` is the first quality rule that fired, `notice` a claim of all rights, `promotional` a score in 0…1 (null where the
language is not covered), `scores` the scores of other classifiers as JSON."""
DROPPED_SCHEMA = pa.schema(
    [*SCHEMA, ("stage", pa.string()), ("reason", pa.string()), ("detail", pa.string())]
)


@dataclass(frozen=True, slots=True)
class Document:
    """One text with where it is from. `id` is 32 hex digits of the hash of the normalised text."""

    id: str
    text: str
    source: str
    domain: str
    language: str
    licence: str
    origin: str

    @property
    def slice(self) -> str:
        """`domain.language`."""
        return f"{self.domain}.{self.language}"


class HasPath(Protocol):
    """What `documents` needs of an artifact."""

    @property
    def path(self) -> Path:
        """The artifact's folder."""


def parts(artifact: HasPath, split: Split) -> list[Path]:
    """Parquet files of one split, in order."""
    return sorted((artifact.path / split).glob("part-*.parquet"))


def rows(
    artifact: HasPath, split: Split, columns: Sequence[str] | None = None, batch_rows: int = 256
) -> Iterator[dict[str, Any]]:
    """Rows of one split as dictionaries, a few hundred in memory at a time."""
    for path in parts(artifact, split):
        file = pq.ParquetFile(path)
        for batch in file.iter_batches(batch_size=batch_rows, columns=list(columns) if columns else None):
            yield from batch.to_pylist()


def documents(artifact: HasPath, split: Split = "train") -> Iterator[Document]:
    """Documents of one split in a fixed order, streamed."""
    for row in rows(artifact, split, CORE):
        yield Document(**row)


def write_working(table: pa.Table, path: Path) -> None:
    """Write a table of the work folder: not compressed and in one piece, so that every later stage maps its text instead of unpacking it."""
    table = table.combine_chunks()
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def read_columns(path: str | Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Some columns (all by default) of a table of the work folder (`.arrow`, memory-mapped) or of a Parquet file."""
    names = list(columns) if columns is not None else None
    if not str(path).endswith(".arrow"):
        return pq.read_table(path, columns=names, use_threads=False)
    with pa.memory_map(str(path)) as source:
        table = pa.ipc.open_file(source).read_all()
    return table.select(names) if names is not None else table


_FEW_VALUES = ["source", "domain", "language", "licence", "rule", "stage", "reason"]
"""Columns that repeat their values: worth a dictionary. Texts and ids are not: looking for repetitions in them costs more than writing them."""


def write_table(table: pa.Table, path: Path) -> None:
    """Write Parquet with small row groups, so that a reader of few documents reads few bytes."""
    names = [name for name in _FEW_VALUES if name in table.schema.names]
    pq.write_table(
        table,
        path,
        compression="zstd",
        compression_level=1,
        row_group_size=2_000,
        use_dictionary=names,
        write_statistics=names,
    )
