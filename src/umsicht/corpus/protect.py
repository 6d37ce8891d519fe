"""Protected texts: evaluation sets that must not be trained on, and works that may not be. Declared and fingerprinted before a corpus is built.

Every field of every item is a *piece*. Pieces of 13 words and more are known by all their runs of 13 words (the n-gram of GPT-3, Brown et al. 2020,
appendix C, here over folded words); a text holds a piece when it has more than half of them (55 %), or 40 of them. Pieces of 8 to 12 words are searched for
whole, anywhere; shorter ones (3 to 7 words) only as lines of their own, a label before them left out ("A) ", "User: "), and only where the text holds another piece of
the same item or the item has no other: "a shopping mall" alone is no leak. Cells of a row (CSV, table, tags) count beside another piece only. Runs that stand in many items of a set (task instructions) are no evidence
and are left out. The same functions serve corpora, fine-tuning files and sample prompts.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umsicht.corpus.kernels.parts import cells, portions, without_labels
from umsicht.corpus.kernels.scan import build_filter, build_table
from umsicht.corpus.kernels.spans import (
    Spans,
    different,
    lines_of,
    run_sets,
    runs_in,
    spans_from,
    whole_hashes,
    words_of,
)

RUN = 13
SHORT = (8, 12)
LINE = (3, 7)
COVERAGE = 0.55
MANY_RUNS = 40
LONG_TEXT = 400
"""Characters of a text that has 13 words or is no short row of numbers anyway."""
LONGEST_LINE = 400
"""Bytes: a longer line is no short piece."""
COMMON_ITEMS = 5
"""A run in more pieces of one set than this is the set's own boilerplate."""


@dataclass(frozen=True)
class Piece:
    """One field of one item."""

    set: str
    item: str
    field: str
    text: str


@dataclass(frozen=True)
class Hit:
    """A text that holds a piece."""

    text: int
    set: str
    item: str
    field: str
    coverage: float

    @property
    def detail(self) -> str:
        """One line for ledgers."""
        return f"{self.set}#{self.item} {self.field}: {self.coverage:.0%}"


@dataclass(frozen=True)
class Fingerprint:
    """All pieces of all sets as hashes."""

    sets: tuple[str, ...]
    labels: tuple[tuple[int, str, str], ...]
    """Of every piece: number of its set, item, field."""
    runs: npt.NDArray[np.uint64]
    """Hashes of runs, sorted, equal ones next to each other."""
    owners: npt.NDArray[np.uint32]
    """The piece of every run."""
    needed: npt.NDArray[np.float32]
    """Different runs of a piece that make a hit."""
    sizes: npt.NDArray[np.uint32]
    """Different runs of a piece."""
    lines: npt.NDArray[np.uint64]
    line_owners: npt.NDArray[np.uint32]
    lengths: npt.NDArray[np.int64]
    unusable: int = 0
    """Pieces too short, or made of boilerplate only, to be told from ordinary text."""
    table: npt.NDArray[np.uint64] = field(default_factory=lambda: build_table(np.empty(0, np.uint64)))
    mask: npt.NDArray[np.uint8] = field(default_factory=lambda: build_filter(np.empty(0, np.uint64)))

    @functools.cached_property
    def pieces_of(self) -> Counter[tuple[str, str]]:
        """Pieces of every item that can be told from ordinary text."""
        lines = set(self.line_owners.tolist())
        return Counter(
            (self.sets[number], item)
            for piece, (number, item, _) in enumerate(self.labels)
            if self.sizes[piece] or piece in lines
        )

    def save(self, path: Path) -> None:
        """Keep for the workers."""
        labels = np.array([f"{number}\t{item}\t{name}" for number, item, name in self.labels], dtype=np.str_)
        np.savez(
            path,
            sets=np.array(self.sets, dtype=np.str_),
            labels=labels,
            runs=self.runs,
            owners=self.owners,
            needed=self.needed,
            sizes=self.sizes,
            lines=self.lines,
            line_owners=self.line_owners,
            lengths=self.lengths,
            table=self.table,
            mask=self.mask,
        )

    @classmethod
    def load(cls, path: Path) -> Fingerprint:
        """The inverse of `save`."""
        with np.load(path) as stored:
            labels = []
            for row in stored["labels"]:
                number, item, name = str(row).split("\t")
                labels.append((int(number), item, name))
            arrays = {
                name: stored[name]
                for name in (
                    "runs",
                    "owners",
                    "needed",
                    "sizes",
                    "lines",
                    "line_owners",
                    "lengths",
                    "table",
                    "mask",
                )
            }
            return cls(sets=tuple(map(str, stored["sets"])), labels=tuple(labels), **arrays)


def fingerprint(pieces: Iterable[Piece]) -> Fingerprint:
    """Hash all pieces. Equal pieces (the same sentence in several items) stay apart, each with its own attribution."""
    sets: dict[str, int] = {}
    labels: list[tuple[int, str, str]] = []
    texts: list[str] = []
    for piece in pieces:
        number = sets.setdefault(piece.set, len(sets))
        labels.append((number, piece.item.replace("\t", " "), piece.field.replace("\t", " ")))
        texts.append(piece.text)
    set_of = np.array([label[0] for label in labels], np.uint32)
    hashes, owners, lengths = runs_of(texts)
    hashes, owners = _without_common(hashes, owners, set_of, lengths[owners] if len(owners) else owners)
    sizes = np.bincount(owners, minlength=len(texts)).astype(np.uint32)
    needed = np.minimum(np.maximum(sizes * COVERAGE, 1), MANY_RUNS).astype(np.float32)
    short = np.flatnonzero((lengths >= LINE[0]) & (lengths <= LINE[1]))
    line_hashes, _ = whole_hashes(spans_from([texts[i] for i in short]))
    order = np.argsort(line_hashes, kind="stable")
    used = np.unique(lengths[(lengths >= SHORT[0]) & (lengths <= SHORT[1])])
    all_lengths = np.concatenate([used, [RUN] if (lengths >= RUN).any() else []]).astype(np.int64)
    known = different(hashes)
    usable = int((sizes > 0).sum()) + len(short)
    return Fingerprint(
        tuple(sets),
        tuple(labels),
        hashes,
        owners,
        needed,
        sizes,
        line_hashes[order],
        short[order].astype(np.uint32),
        all_lengths,
        len(texts) - usable,
        build_table(known),
        build_filter(known),
    )


def runs_of(
    texts: Sequence[str],
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """Different run hashes of every text, sorted by hash, their owners, and the words of every text."""
    clean = [text.encode("utf-8", "replace").decode("utf-8", "replace") for text in texts]
    spans = spans_from(clean)
    few = np.diff(words_of(spans).offsets) < RUN
    speaks = np.array([not short or _speaks(text) for text, short in zip(clean, few, strict=True)], bool)
    hashes, offsets, lengths = run_sets(spans, RUN, SHORT[0], speaks)
    owners = np.repeat(np.arange(len(texts), dtype=np.uint32), np.diff(offsets))
    order = np.argsort(hashes, kind="stable")
    return hashes[order], owners[order], lengths


def _speaks(text: str) -> bool:
    """At least half letters: short rows of numbers stand everywhere. Of long texts nobody asks."""
    if len(text) > LONG_TEXT:
        return True
    signs = [character for character in text if character.isalnum()]
    return 2 * sum(character.isalpha() for character in signs) >= len(signs)


def _without_common(
    hashes: npt.NDArray[np.uint64],
    owners: npt.NDArray[np.uint32],
    set_of: npt.NDArray[np.uint32],
    lengths: npt.NDArray[Any],
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]:
    """Leave out runs that many pieces of one set share. A piece that is one whole run (8 to 12 words) always stays."""
    if not len(hashes):
        return hashes, owners
    sets = set_of[owners]
    order = np.lexsort((sets, hashes))
    hashes, owners, sets, lengths = hashes[order], owners[order], sets[order], lengths[order]
    new = np.ones(len(hashes), bool)
    new[1:] = (hashes[1:] != hashes[:-1]) | (sets[1:] != sets[:-1])
    group = np.cumsum(new) - 1
    keep = (np.bincount(group)[group] <= COMMON_ITEMS) | (lengths < RUN)
    return hashes[keep], owners[keep]


def scan(spans: Spans, known: Fingerprint) -> list[Hit]:
    """All pieces that the texts hold, sorted by text; the same piece once a text."""
    hits = _run_hits(spans, known)
    if len(known.lines):
        hits += _line_hits(spans, known, hits)
    return sorted(hits, key=lambda hit: (hit.text, -hit.coverage, hit.set, hit.item, hit.field))


def _run_hits(spans: Spans, known: Fingerprint) -> list[Hit]:
    text, value = runs_in(spans, known.lengths, known.table, known.mask)
    if not len(text):
        return []
    pairs = np.unique(np.stack([text.astype(np.uint64), value], 1), axis=0)
    text, value = pairs[:, 0], pairs[:, 1]
    first = np.searchsorted(known.runs, value, "left")
    last = np.searchsorted(known.runs, value, "right")
    counts = last - first
    at = np.repeat(first, counts) + _within(counts)
    owner = known.owners[at].astype(np.uint64)
    both, found = np.unique(np.repeat(text, counts) << np.uint64(32) | owner, return_counts=True)
    owner = (both & np.uint64(0xFFFFFFFF)).astype(np.int64)
    enough = found >= known.needed[owner]
    return [
        _hit(known, int(number >> np.uint64(32)), int(piece), int(n) / int(known.sizes[piece]))
        for number, piece, n in zip(both[enough], owner[enough], found[enough], strict=True)
    ]


def _within(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """0, 1, … inside every group."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)


def _line_hits(spans: Spans, known: Fingerprint, others: Sequence[Hit]) -> list[Hit]:
    whole: set[tuple[int, int]] = set()
    inside: set[tuple[int, int]] = set()
    for text, lines in portions(*lines_of(spans)):
        whole |= _short_pieces(text, lines, known) | _short_pieces(*without_labels(text, lines), known)
        inside |= _short_pieces(*cells(text, lines), known)
    found = whole | inside
    hits = [_hit(known, number, piece, 1.0) for number, piece in sorted(found)]
    alone = {(hit.text, hit.set, hit.item) for hit in (_hit(known, *pair, 1.0) for pair in whole)}
    seen = Counter((hit.text, hit.set, hit.item) for hit in [*others, *hits])
    return [
        hit
        for hit in hits
        if seen[key := (hit.text, hit.set, hit.item)] > 1
        or (key in alone and known.pieces_of[hit.set, hit.item] == 1)
    ]


def _short_pieces(text: npt.NDArray[np.uint32], lines: Spans, known: Fingerprint) -> set[tuple[int, int]]:
    """Text and piece of every line (or part of one) that is a short piece, word for word."""
    fits = (lines.ends - lines.starts) <= LONGEST_LINE
    hashes, counts = whole_hashes(lines.take(fits))
    text = text[fits]
    short = (counts >= LINE[0]) & (counts <= LINE[1])
    hashes, text = hashes[short], text[short]
    first = np.searchsorted(known.lines, hashes, "left")
    last = np.searchsorted(known.lines, hashes, "right")
    return {
        (int(text[i]), int(piece))
        for i in np.flatnonzero(last > first)
        for piece in known.line_owners[first[i] : last[i]]
    }


def _hit(known: Fingerprint, text: int, piece: int, coverage: float) -> Hit:
    number, item, name = known.labels[piece]
    return Hit(text, known.sets[number], item, name, coverage)


def pieces_of_rows(
    name: str, rows: Iterable[Mapping[str, Any]], fields: Sequence[str] = ()
) -> Iterator[Piece]:
    """Pieces of an evaluation set's rows: the named fields, or every string in a row. Lists of strings (choices) give one piece each."""
    for number, row in enumerate(rows):
        item = str(row.get("id", number))
        for key in fields or (name for name in row if name != "id"):
            yield from _strings(name, item, str(key), row.get(key))


def _strings(name: str, item: str, key: str, value: Any) -> Iterator[Piece]:
    if isinstance(value, str):
        yield Piece(name, item, key, value)
    elif isinstance(value, Mapping):
        for inner, found in value.items():
            yield from _strings(name, item, f"{key}.{inner}", found)
    elif isinstance(value, Sequence):
        for found in value:
            yield from _strings(name, item, key, found)
