"""The first map stage: read, decode, normalise, name. A task turns a few units into partitions and their index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from umsicht.corpus.document import DROPPED_SCHEMA, SCHEMA, write_table
from umsicht.corpus.index import ROW, hex_id, index_path, text_hash
from umsicht.corpus.ledger import Ledger
from umsicht.corpus.normalise import Undecodable, decode, normalise
from umsicht.corpus.sources import Broken, Raw, Unit, read_unit
from umsicht.recipe.corpus import CorpusSettings, NormaliseSettings

UNDETERMINED = "und"
BROKEN_SHOWN = 50


@dataclass(frozen=True)
class PrepareTask:
    """Units to read and where to put their documents."""

    number: int
    units: tuple[Unit, ...]
    folder: str
    normalise: NormaliseSettings
    min_document_bytes: int
    max_document_bytes: int
    partition_bytes: int

    @classmethod
    def of(cls, number: int, units: tuple[Unit, ...], folder: Path, settings: CorpusSettings) -> PrepareTask:
        """A task out of the corpus settings."""
        return cls(
            number,
            units,
            str(folder),
            settings.normalise,
            settings.min_document_bytes,
            settings.max_document_bytes,
            settings.partition_bytes,
        )


@dataclass
class _Part:
    """One partition while it fills."""

    rows: list[tuple[str, ...]] = field(default_factory=list)
    index: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    slices: dict[str, int] = field(default_factory=dict)
    sources: dict[str, int] = field(default_factory=dict)
    bytes: int = 0


def prepare(task: PrepareTask) -> dict[str, Any]:
    """Read the task's units. Returns partitions, ledger counts, and broken members; the texts are on disk."""
    worker = _Worker(task)
    for unit in task.units:
        for item in read_unit(unit, task.max_document_bytes):
            worker.take(unit, item)
    return worker.close()


class _Worker:
    def __init__(self, task: PrepareTask) -> None:
        self.task = task
        self.folder = Path(task.folder)
        self.part = _Part()
        self.parts: list[dict[str, Any]] = []
        self.dropped: list[tuple[Any, ...]] = []
        self.ledger = Ledger()
        self.broken: Counter[tuple[str, str]] = Counter()
        self.shown: list[dict[str, str]] = []
        self.encodings: Counter[str] = Counter()

    def take(self, unit: Unit, item: Raw | Broken) -> None:
        source = unit.source.name
        if isinstance(item, Broken):
            self._broken(unit, item)
            return
        raw = item.text
        if isinstance(raw, bytes):
            try:
                raw, encoding = decode(raw)
            except Undecodable as error:
                self._broken(unit, Broken(item.origin, "undecodable", str(error), len(raw)))
                return
            if encoding != "utf-8":
                self.encodings[encoding] += 1
        self.ledger.add(source, "read", 1, _utf8_length(raw))
        text = normalise(raw, self.task.normalise)
        data = text.encode()
        labels = self._labels(unit, item)
        if len(data) < self.task.min_document_bytes:
            self._drop(text, labels, len(data), "normalise", "too-short", f"{len(data)} bytes")
            return
        self.ledger.add(source, "normalise", 1, len(data))
        self.ledger.add(source, "filter", 1, len(data))
        self._keep(text, data, labels)

    def _labels(self, unit: Unit, item: Raw) -> tuple[str, str, str, str, str]:
        info = unit.source
        return (
            info.name,
            item.domain or info.domain,
            (info.language or item.language or UNDETERMINED).lower(),
            item.licence or info.licence,
            item.origin,
        )

    def _keep(self, text: str, data: bytes, labels: tuple[str, str, str, str, str]) -> None:
        part = self.part
        value = text_hash(data)
        hi, lo = value >> 64, value & 0xFFFFFFFFFFFFFFFF
        name = f"{labels[1]}.{labels[2]}"
        number = part.slices.setdefault(name, len(part.slices))
        part.rows.append((hex_id(hi, lo), text, *labels))
        source = part.sources.setdefault(labels[0], len(part.sources))
        part.index.append((hi, lo, len(data), number, source))
        part.bytes += len(data)
        if part.bytes >= self.task.partition_bytes:
            self._flush()

    def _broken(self, unit: Unit, item: Broken) -> None:
        self.broken[unit.source.name, item.reason] += 1
        if len(self.shown) < BROKEN_SHOWN:
            self.shown.append(
                {
                    "source": unit.source.name,
                    "origin": item.origin,
                    "reason": item.reason,
                    "detail": item.detail,
                }
            )
        labels = (unit.source.name, unit.source.domain, UNDETERMINED, unit.source.licence, item.origin)
        self._drop("", labels, item.bytes, "read", item.reason, item.detail)

    def _drop(
        self,
        text: str,
        labels: tuple[str, str, str, str, str],
        size: int,
        stage: str,
        reason: str,
        detail: str,
    ) -> None:
        value = text_hash(text.encode())
        identity = hex_id(value >> 64, value & 0xFFFFFFFFFFFFFFFF)
        self.dropped.append((identity, text, *labels, size, stage, reason, detail))

    def _flush(self) -> None:
        part = self.part
        if not part.rows:
            return
        key = f"{self.task.number:05d}-{len(self.parts):03d}"
        columns: list[Any] = list(zip(*part.rows, strict=True))
        columns.append([row[2] for row in part.index])
        write_table(_table(columns, SCHEMA), self.folder / f"{key}.parquet")
        np.save(index_path(self.folder, key), np.array(part.index, ROW))
        self.parts.append(
            {
                "key": key,
                "rows": len(part.rows),
                "bytes": part.bytes,
                "slices": list(part.slices),
                "sources": list(part.sources),
            }
        )
        self.part = _Part()

    def close(self) -> dict[str, Any]:
        self._flush()
        dropped = ""
        if self.dropped:
            dropped = f"{self.task.number:05d}.dropped.parquet"
            columns = list(zip(*self.dropped, strict=True))
            write_table(_table(columns, DROPPED_SCHEMA), self.folder / dropped)
        return {
            "parts": self.parts,
            "dropped": dropped,
            "ledger": self.ledger.plain(),
            "broken": [[source, reason, n] for (source, reason), n in sorted(self.broken.items())],
            "reasons": [
                [stage, reason, n]
                for (stage, reason), n in sorted(Counter(row[8:10] for row in self.dropped).items())
            ],
            "broken_shown": self.shown,
            "encodings": dict(self.encodings),
        }


def _table(columns: list[Any], schema: pa.Schema) -> pa.Table:
    arrays = [pa.array(column, kind.type) for column, kind in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _utf8_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def group_units(units: tuple[Unit, ...], partition: int) -> Iterator[tuple[Unit, ...]]:
    """Neighbouring units together until they fill a partition."""
    group: list[Unit] = []
    size = 0
    for unit in units:
        if group and size + unit.bytes > partition:
            yield tuple(group)
            group, size = [], 0
        group.append(unit)
        size += unit.bytes
    if group:
        yield tuple(group)
