"""The first map stage: read, decode, normalise, redact, name, label. A task turns a few units into partitions and their index."""

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
from umsicht.corpus.label.batch import PROMOTIONAL, Labels, counted, label_batch
from umsicht.corpus.label.language import CODE, identify
from umsicht.corpus.ledger import Ledger
from umsicht.corpus.lines import CODE_DOMAIN
from umsicht.corpus.normalise import Undecodable, decode, normalise
from umsicht.corpus.redact import redact
from umsicht.corpus.sources import Broken, Raw, Unit, read_unit
from umsicht.recipe.corpus import CorpusSettings, FilterSettings, NormaliseSettings

UNDETERMINED = "und"
BROKEN_SHOWN = 50
BATCH_BYTES = 8_000_000
"""Text that is labelled at once."""
ONLY_PROSE = ("email", "key")
"""What is redacted in code too."""


@dataclass(frozen=True)
class PrepareTask:
    """Units to read and where to put their documents."""

    number: int
    units: tuple[Unit, ...]
    folder: str
    normalise: NormaliseSettings
    filters: FilterSettings
    source_filters: tuple[tuple[str, FilterSettings], ...]
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
            settings.filter,
            tuple((source.name, source.filter) for source in settings.sources if source.filter is not None),
            settings.min_document_bytes,
            settings.max_document_bytes,
            settings.partition_bytes,
        )

    def filters_of(self, source: str) -> FilterSettings:
        """The filters of a source; parts of the starter (`starter.wiki`) share those of their source."""
        own = dict(self.source_filters)
        return own.get(source) or own.get(source.partition(".")[0]) or self.filters


@dataclass(frozen=True, slots=True)
class _Text:
    """A normalised document on its way into a partition."""

    text: str
    data: bytes
    source: str
    domain: str
    language: str
    licence: str
    origin: str


@dataclass
class _Part:
    """One partition while it fills."""

    columns: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in SCHEMA.names})
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
        self.batch: list[_Text] = []
        self.batch_bytes = 0
        self.part = _Part()
        self.parts: list[dict[str, Any]] = []
        self.dropped: dict[str, list[Any]] = {name: [] for name in DROPPED_SCHEMA.names}
        self.ledger = Ledger()
        self.broken: Counter[tuple[str, str]] = Counter()
        self.shown: list[dict[str, str]] = []
        self.encodings: Counter[str] = Counter()
        self.redacted: Counter[str] = Counter()
        self.labels: dict[str, dict[str, list[int]]] = {}

    def take(self, unit: Unit, item: Raw | Broken) -> None:
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
        info = unit.source
        self.ledger.add(info.name, "read", 1, _utf8_length(raw))
        text = normalise(raw, self.task.normalise)
        language = (info.language or item.language).lower()
        if not language or language == UNDETERMINED:
            language = identify(text)[0]
        domain = item.domain or (CODE_DOMAIN if language == CODE and info.domain == "text" else info.domain)
        text = self._redact(text, domain)
        licence = item.licence or info.licence
        pieces = list(cut_text(text, self.task.max_document_bytes)) or [""]
        for number, piece in enumerate(pieces):
            origin = item.origin if number == 0 else f"{item.origin}~{number + 1}"
            self._take_text(_Text(piece, piece.encode(), info.name, domain, language, licence, origin))

    def _take_text(self, document: _Text) -> None:
        data = document.data
        if len(data) < self.task.min_document_bytes:
            self._drop(document, "normalise", "too-short", f"{len(data)} bytes")
            return
        self.ledger.add(document.source, "normalise", 1, len(data))
        self.batch.append(document)
        self.batch_bytes += len(data)
        if self.batch_bytes >= min(BATCH_BYTES, self.task.partition_bytes):
            self._label()

    def _redact(self, text: str, domain: str) -> str:
        kinds = self.task.normalise.redact
        if domain == CODE_DOMAIN:
            kinds = tuple(kind for kind in kinds if kind in ONLY_PROSE)
        if not kinds:
            return text
        text, counts = redact(text, kinds)
        self.redacted.update(counts)
        return text

    def _label(self) -> None:
        """Label what has gathered, source by source, keeping the order of reading."""
        batch, self.batch, self.batch_bytes = self.batch, [], 0
        first = 0
        while first < len(batch):
            last = first
            while last < len(batch) and batch[last].source == batch[first].source:
                last += 1
            self._label_source(batch[first:last])
            first = last

    def _label_source(self, documents: list[_Text]) -> None:
        filters = self.task.filters_of(documents[0].source)
        is_code = np.array([document.domain == CODE_DOMAIN for document in documents], bool)
        labels = label_batch(
            [document.text for document in documents],
            [document.language for document in documents],
            is_code,
            filters,
        )
        self._count_labels(documents, labels, filters)
        for i, document in enumerate(documents):
            reason, detail = labels.reason[i]
            row = (labels.rule[i], labels.notice[i], labels.promotional[i], labels.scores[i])
            if reason:
                self._drop(document, "filter", reason, detail, row)
            else:
                self._keep(document, row)

    def _count_labels(self, documents: list[_Text], labels: Labels, filters: FilterSettings) -> None:
        """Documents and bytes by source and label, for the report."""
        mine = self.labels.setdefault(documents[0].source, {})
        promotional = counted(filters, PROMOTIONAL) if PROMOTIONAL in filters.classifiers else 2.0
        for i, document in enumerate(documents):
            names = [f"language:{document.language}", f"rule:{labels.rule[i]}" if labels.rule[i] else ""]
            score = labels.promotional[i]
            if score is not None:
                names += ["scored", PROMOTIONAL if score >= promotional else ""]
            names += ["notice" if labels.notice[i] else "", f"licence:{document.licence}"]
            for name in filter(None, names):
                entry = mine.setdefault(name, [0, 0])
                entry[0] += 1
                entry[1] += len(document.data)

    def _keep(self, document: _Text, row: tuple[Any, ...]) -> None:
        part = self.part
        value = text_hash(document.data)
        hi, lo = value >> 64, value & 0xFFFFFFFFFFFFFFFF
        number = part.slices.setdefault(f"{document.domain}.{document.language}", len(part.slices))
        source = part.sources.setdefault(document.source, len(part.sources))
        _append(part.columns, document, hex_id(hi, lo), row)
        part.index.append((hi, lo, len(document.data), number, source))
        part.bytes += len(document.data)
        self.ledger.add(document.source, "filter", 1, len(document.data))
        if part.bytes >= self.task.partition_bytes:
            self._flush()

    def _broken(self, unit: Unit, item: Broken) -> None:
        source = unit.source
        self.broken[source.name, item.reason] += 1
        if len(self.shown) < BROKEN_SHOWN:
            self.shown.append(
                {"source": source.name, "origin": item.origin, "reason": item.reason, "detail": item.detail}
            )
        empty = _Text("", b"", source.name, source.domain, UNDETERMINED, source.licence, item.origin)
        self._drop(empty, "read", item.reason, item.detail, size=item.bytes)

    def _drop(
        self,
        document: _Text,
        stage: str,
        reason: str,
        detail: str,
        row: tuple[Any, ...] = ("", False, None, None),
        *,
        size: int | None = None,
    ) -> None:
        value = text_hash(document.data)
        _append(self.dropped, document, hex_id(value >> 64, value & 0xFFFFFFFFFFFFFFFF), row)
        if size is not None:
            self.dropped["bytes"][-1] = size
        for name, label in (("stage", stage), ("reason", reason), ("detail", detail)):
            self.dropped[name].append(label)

    def _flush(self) -> None:
        part = self.part
        if not part.index:
            return
        key = f"{self.task.number:05d}-{len(self.parts):03d}"
        write_table(pa.table(part.columns, SCHEMA), self.folder / f"{key}.parquet")
        np.save(index_path(self.folder, key), np.array(part.index, ROW))
        self.parts.append(
            {
                "key": key,
                "rows": len(part.index),
                "bytes": part.bytes,
                "slices": list(part.slices),
                "sources": list(part.sources),
            }
        )
        self.part = _Part()

    def close(self) -> dict[str, Any]:
        self._label()
        self._flush()
        dropped = ""
        if self.dropped["id"]:
            dropped = f"{self.task.number:05d}.dropped.parquet"
            write_table(pa.table(self.dropped, DROPPED_SCHEMA), self.folder / dropped)
        reasons = Counter(zip(self.dropped["stage"], self.dropped["reason"], strict=True))
        return {
            "parts": self.parts,
            "dropped": dropped,
            "ledger": self.ledger.plain(),
            "broken": [[source, reason, n] for (source, reason), n in sorted(self.broken.items())],
            "reasons": [[stage, reason, n] for (stage, reason), n in sorted(reasons.items())],
            "broken_shown": self.shown,
            "encodings": dict(self.encodings),
            "redacted": dict(self.redacted),
            "labels": self.labels,
        }


def cut_text(text: str, limit: int) -> Iterator[str]:
    """A long text in pieces of at most `limit` UTF-8 bytes, cut at blank lines where there are any, else at line ends, else anywhere."""
    while len(text) * 4 > limit and _utf8_length(text) > limit:
        end = len(text.encode()[:limit].decode("utf-8", "ignore"))
        for sign in ("\n\n", "\n"):
            place = text.rfind(sign, end // 4, end)
            if place > 0:
                end = place
                break
        yield text[:end].rstrip("\n")
        text = text[end:].lstrip("\n")
    if text:
        yield text


def _append(columns: dict[str, list[Any]], document: _Text, identity: str, row: tuple[Any, ...]) -> None:
    values = (
        identity,
        document.text,
        document.source,
        document.domain,
        document.language,
        document.licence,
        document.origin,
        len(document.data),
        *row,
    )
    for name, value in zip(SCHEMA.names, values, strict=True):
        columns[name].append(value)


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
