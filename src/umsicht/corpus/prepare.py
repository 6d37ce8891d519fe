"""The first map stage: read, decode, normalise, redact, name, label. A task turns a few units into partitions and their index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from umsicht.corpus.clean import Batch, clean
from umsicht.corpus.document import CODE_DOMAIN
from umsicht.corpus.index import hex_id, text_hash
from umsicht.corpus.kernels.spans import words_and_lines_of
from umsicht.corpus.label.batch import PROMOTIONAL, counted, label_batch, unlabelled
from umsicht.corpus.label.language import UNDETERMINED
from umsicht.corpus.label.sample import tally
from umsicht.corpus.ledger import Ledger
from umsicht.corpus.normalise import Undecodable, decode
from umsicht.corpus.partition import Dropped, Partition, Rows, hashes
from umsicht.corpus.pieces import Pieces, PieceSettings, pieces_of
from umsicht.corpus.sources import Broken, Column, Raw, Unit, read_unit
from umsicht.recipe.corpus import CorpusSettings, FilterSettings, NormaliseSettings

BROKEN_SHOWN = 50
TRACES = "promotional-traces"
TRACE = 0.05
"""Share of the promotional preset's threshold from which a document counts as a trace: weak evidence on one text, good evidence on a share of a source."""
TRACED_BYTES = 400
"""Shorter texts (chat, headlines) reach that score by chance."""
BATCH_BYTES = 4_000_000
"""Text that is worked on at once."""
BATCH_ROWS = 20_000


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
    sketch_words: int
    """Words a shingle of the sketches that near-duplicates are searched by; 0: they are not searched."""
    pieces: PieceSettings

    @classmethod
    def of(cls, number: int, units: tuple[Unit, ...], folder: Path, settings: CorpusSettings) -> PrepareTask:
        """A task out of the corpus settings."""
        dedupe = settings.dedupe
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
            dedupe.near.words if dedupe.near.enabled else 0,
            PieceSettings(
                dedupe.lines.min_words if dedupe.lines.enabled else 0,
                dedupe.paragraphs.min_shingles if dedupe.paragraphs.enabled else 0,
                dedupe.near.words,
            ),
        )

    def filters_of(self, source: str) -> FilterSettings:
        """The filters of a source; parts of the starter (`starter.wiki`) share those of their source."""
        own = dict(self.source_filters)
        return own.get(source) or own.get(source.partition(".")[0]) or self.filters


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
        self.batch: Batch | None = None
        self.batch_bytes = 0
        self.batch_limit = min(BATCH_BYTES, task.partition_bytes)
        self.part = Partition()
        self.parts: list[dict[str, Any]] = []
        self.dropped = Dropped()
        self.ledger = Ledger()
        self.broken: Counter[tuple[str, str]] = Counter()
        self.unreadable: list[dict[str, Any]] = []
        self.shown: list[dict[str, str]] = []
        self.encodings: Counter[str] = Counter()
        self.redacted: Counter[str] = Counter()
        self.labels: dict[str, dict[str, list[int]]] = {}

    def take(self, unit: Unit, item: Raw | Broken | Column) -> None:
        if isinstance(item, Broken):
            self._broken(unit, item)
            return
        if isinstance(item, Column):
            self._work()
            for texts, origins in _portions(item, self.batch_limit):
                self.batch = Batch.of(unit.source, texts, origins)
                self._work()
            return
        text = item.text
        if isinstance(text, bytes):
            try:
                text, encoding = decode(text)
            except Undecodable as error:
                self._broken(unit, Broken(item.origin, "undecodable", str(error), len(text)))
                return
            if encoding != "utf-8":
                self.encodings[encoding] += 1
        info, batch = unit.source, self.batch
        if batch is None or batch.info is not info or self.batch_bytes >= self.batch_limit:
            self._work()
            batch = self.batch = Batch(info)
        batch.add(
            text,
            item.origin,
            (info.language or item.language).lower(),
            item.licence or info.licence,
            item.domain,
        )
        self.batch_bytes += len(text)
        if len(batch) >= BATCH_ROWS:
            self._work()

    def _work(self) -> None:
        """Clean, label and put away what has gathered."""
        batch, self.batch, self.batch_bytes = self.batch, None, 0
        if batch is None or not len(batch):
            return
        read = len(batch)
        cleaned = clean(batch, self.task.normalise, self.task.max_document_bytes)
        batch, spans = cleaned.batch, cleaned.spans
        source = batch.info.name
        self.ledger.add(source, "read", read, cleaned.read_bytes)
        self.redacted.update(cleaned.redacted)
        sizes = spans.ends - spans.starts
        names, halves = hashes(spans)
        long = sizes >= self.task.min_document_bytes
        kept, short = np.flatnonzero(long), np.flatnonzero(~long)
        filters = self.task.filters_of(source)
        is_code = np.array([domain == CODE_DOMAIN for domain in batch.domains], bool)
        words, lines = words_and_lines_of(spans)
        labels = label_batch(spans, words, batch.languages, is_code, cleaned.notice, filters)
        sketched = words.sketches(self.task.sketch_words) if self.task.sketch_words else None
        found = Rows(batch, spans.column(), sizes, names, halves, labels, sketched)
        if len(short):
            why = [("too-short", f"{size} bytes") for size in sizes[short].tolist()]
            self.dropped.add(
                replace(found, labels=unlabelled(len(batch))),
                short,
                "normalise",
                why,
            )
        self.ledger.add(source, "normalise", len(kept), int(sizes[kept].sum()))
        self._count_labels(found, kept, filters)
        for name, (documents, size) in tally(spans, words, batch.languages, is_code).items():
            _add(self.labels[source], name, documents, size)
        reasons = labels.reason
        if any(reasons.get(i) for i in kept.tolist()) if reasons else False:
            gone = np.array([i in reasons for i in range(len(batch))], bool)
            leaving = np.flatnonzero(long & gone)
            self.dropped.add(found, leaving, "filter", [reasons[i] for i in leaving.tolist()])
            kept = np.flatnonzero(long & ~gone)
        self.ledger.add(source, "filter", len(kept), int(sizes[kept].sum()))
        if len(kept):
            rows = np.full(len(batch), -1, np.int64)
            rows[kept] = self.part.rows + np.arange(len(kept))
            rows[is_code] = -1
            self._keep(found, kept, pieces_of(words, lines, spans.starts, rows, self.task.pieces))

    def _keep(self, found: Rows, kept: npt.NDArray[np.int64], pieces: Pieces) -> None:
        """Into the partition, which is written when it is full."""
        self.part.add(found, kept, pieces)
        if self.part.bytes >= self.task.partition_bytes:
            self._flush()

    def _count_labels(self, found: Rows, rows: npt.NDArray[np.int64], filters: FilterSettings) -> None:
        """Documents and bytes by source and label, for the report."""
        mine = self.labels.setdefault(found.batch.info.name, {})
        sizes, labels = found.sizes[rows], found.labels
        chosen = rows.tolist()
        _tally(mine, "language:", [found.batch.languages[i] for i in chosen], sizes)
        _tally(mine, "licence:", [found.batch.licences[i] for i in chosen], sizes)
        _tally(mine, "rule:", [labels.rule[i] for i in chosen], sizes)
        scores = labels.promotional_scores[rows]
        threshold = counted(filters, PROMOTIONAL) if PROMOTIONAL in filters.classifiers else 2.0
        traced = PROMOTIONAL in filters.classifiers and not filters.classifiers[PROMOTIONAL].path
        for name, mask in (
            ("scored", ~np.isnan(scores)),
            (PROMOTIONAL, scores >= threshold),
            (TRACES, (scores >= TRACE * threshold) & (sizes >= TRACED_BYTES) & traced),
            ("notice", labels.notice[rows]),
        ):
            if mask.any():
                _add(mine, name, int(mask.sum()), int(sizes[mask].sum()))

    def _broken(self, unit: Unit, item: Broken) -> None:
        source = unit.source
        self.broken[source.name, item.reason] += 1
        if len(self.shown) < BROKEN_SHOWN:
            self.shown.append(
                {"source": source.name, "origin": item.origin, "reason": item.reason, "detail": item.detail}
            )
        value = text_hash(b"")
        self.unreadable.append(
            {
                "id": hex_id(value >> 64, value & 0xFFFFFFFFFFFFFFFF),
                "text": "",
                "source": source.name,
                "domain": source.domain,
                "language": UNDETERMINED,
                "licence": source.licence,
                "origin": item.origin,
                "bytes": item.bytes,
                "rule": "",
                "notice": False,
                "stage": "read",
                "reason": item.reason,
                "detail": item.detail,
            }
        )

    def _flush(self) -> None:
        if self.part.index:
            key = f"{self.task.number:05d}-{len(self.parts):03d}"
            self.parts.append(self.part.write(self.folder, key))
            self.part = Partition()

    def close(self) -> dict[str, Any]:
        self._work()
        self._flush()
        self.dropped.add_broken(self.unreadable)
        name = self.dropped.write(self.folder / f"{self.task.number:05d}.dropped.parquet")
        reasons = Counter((stage, reason) for stage, reason, _ in self.dropped.reasons)
        return {
            "parts": self.parts,
            "dropped": name,
            "ledger": self.ledger.plain(),
            "broken": [[source, reason, n] for (source, reason), n in sorted(self.broken.items())],
            "reasons": [[stage, reason, n] for (stage, reason), n in sorted(reasons.items())],
            "broken_shown": self.shown,
            "encodings": dict(self.encodings),
            "redacted": dict(self.redacted),
            "labels": self.labels,
        }


def _portions(column: Column, limit: int) -> Iterator[tuple[pa.LargeStringArray, list[str]]]:
    """A column in pieces of about so many bytes, and of at most `BATCH_ROWS` rows."""
    edges = np.frombuffer(column.texts.buffers()[1], np.int64, len(column.texts) + 1, 8 * column.texts.offset)
    first = 0
    while first < len(column.texts):
        last = int(np.searchsorted(edges, edges[first] + limit))
        last = min(max(last, first + 1), first + BATCH_ROWS, len(column.texts))
        yield column.texts.slice(first, last - first), column.origins[first:last]
        first = last


def _add(into: dict[str, list[int]], name: str, documents: int, size: int) -> None:
    """Add documents and bytes to a label."""
    entry = into.setdefault(name, [0, 0])
    entry[0] += documents
    entry[1] += size


def _tally(
    into: dict[str, list[int]], prefix: str, values: Sequence[str], sizes: npt.NDArray[np.int64]
) -> None:
    """Add documents and bytes by value; an empty value is none."""
    numbers: dict[str, int] = {}
    codes = np.array([numbers.setdefault(value, len(numbers)) for value in values], np.int64)
    documents = np.bincount(codes, minlength=len(numbers)).tolist()
    total = np.bincount(codes, weights=sizes, minlength=len(numbers)).tolist()
    for value, number in numbers.items():
        if value:
            _add(into, f"{prefix}{value}", documents[number], int(total[number]))


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
