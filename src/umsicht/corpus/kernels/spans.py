"""Texts as one block of bytes with starts and ends, taken from Arrow without copying each text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from umsicht.corpus.kernels import pieces as _pieces
from umsicht.corpus.kernels import shingles as _shingles
from umsicht.corpus.kernels.fold import table_arguments

_LINE_FEED = 10


@dataclass(frozen=True)
class Spans:
    """`buffer[starts[i]:ends[i]]` is text i in UTF-8."""

    buffer: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts)

    def take(self, chosen: npt.NDArray[Any]) -> Spans:
        """Some of the spans, same buffer."""
        return Spans(
            self.buffer, np.ascontiguousarray(self.starts[chosen]), np.ascontiguousarray(self.ends[chosen])
        )

    def replaced(self, rows: Sequence[int], texts: list[str]) -> Spans:
        """The same texts with some of them exchanged, one after the other in a buffer of their own."""
        from umsicht.corpus.kernels.scan import gather

        new = spans_from(texts)
        starts, ends = self.starts.copy(), self.ends.copy()
        starts[list(rows)] = new.starts + len(self.buffer)
        ends[list(rows)] = new.ends + len(self.buffer)
        sizes = ends - starts
        edges = np.zeros(len(self) + 1, np.int64)
        np.cumsum(sizes, out=edges[1:])
        out = np.empty(max(int(edges[-1]), 1), np.uint8)
        gather(self.buffer, new.buffer, starts, ends, out)
        return Spans(out, edges[:-1].copy(), edges[1:].copy())

    def column(self) -> pa.Array:
        """The spans as an Arrow column over the same buffer. They must lie one after the other without gaps, as `spans_from` makes them."""
        offsets = np.zeros(len(self) + 1, np.int64)
        offsets[:-1], offsets[-1:] = self.starts, self.ends[-1:]
        return pa.LargeStringArray.from_buffers(len(self), pa.py_buffer(offsets), pa.py_buffer(self.buffer))

    def text(self, i: int) -> str:
        """Text i as a string."""
        return self.buffer[self.starts[i] : self.ends[i]].tobytes().decode("utf-8", "replace")


def spans_of(column: pa.ChunkedArray | pa.Array) -> Spans:
    """Spans of a string column (nulls are empty texts)."""
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], pa.large_string())
    column = column.cast(pa.large_string())
    _, offsets, data = column.buffers()
    n = len(column)
    if data is None or n == 0:
        empty = np.zeros(n, np.int64)
        return Spans(np.zeros(1, np.uint8), empty, empty.copy())
    edges = np.frombuffer(offsets, np.int64, n + 1, column.offset * 8)
    return Spans(
        np.frombuffer(data, np.uint8), np.ascontiguousarray(edges[:-1]), np.ascontiguousarray(edges[1:])
    )


def different(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Sorted and each once. (`np.unique` hashes before it sorts, which takes three times as long on what is nearly all different.)"""
    found = np.sort(values)
    new = np.ones(len(found), bool)
    new[1:] = found[1:] != found[:-1]
    kept: npt.NDArray[Any] = found[new]
    return kept


def spans_from(texts: list[str]) -> Spans:
    """Spans of a few strings."""
    return spans_of(pa.array(texts, pa.large_string()))


@dataclass(frozen=True)
class Words:
    """Hashed words of texts one after the other, and the offsets `[texts + 1]` that cut them."""

    hashes: npt.NDArray[np.uint64]
    offsets: npt.NDArray[np.int64]

    def take(self, chosen: npt.NDArray[Any]) -> Words:
        """Those of some of the texts."""
        if len(chosen) == len(self.offsets) - 1:
            return self
        first, last = self.offsets[:-1][chosen], self.offsets[1:][chosen]
        offsets = np.zeros(len(chosen) + 1, np.int64)
        np.cumsum(last - first, out=offsets[1:])
        at = np.arange(offsets[-1]) + np.repeat(first - offsets[:-1], last - first)
        return Words(self.hashes[at], offsets)

    def sketches(
        self, n: int, size: int = _shingles.SKETCH
    ) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]:
        """What `sketches` says of the texts."""
        out = np.empty((len(self.offsets) - 1, size), np.uint64)
        counts = np.zeros(len(out), np.uint32)
        if len(out):
            first, last = self.offsets[:-1], self.offsets[1:]
            _pieces.sketch_runs(self.hashes, first, last, n, out, counts)
        return out, counts


@dataclass(frozen=True)
class Lines:
    """Lines of texts that are not empty."""

    text: npt.NDArray[np.uint32]
    """Number of the text of every line."""
    places: npt.NDArray[np.int64]
    """`[lines, 4]`: where a line begins and ends in the buffer, and its first and past its last word among all words."""
    after_blank: npt.NDArray[np.bool_]
    """Whether a blank line stands before a line."""
    has_blank: npt.NDArray[np.bool_]
    """Whether a text has a blank line anywhere."""

    def blocks(self) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        """Text and places of the blocks between blank lines; a text without any has its lines for blocks."""
        text, places = np.empty_like(self.text), np.empty_like(self.places)
        count = _pieces.join_lines(self.text, self.places, self.after_blank, self.has_blank, text, places)
        return text[:count], places[:count]


def words_and_lines_of(spans: Spans) -> tuple[Words, Lines]:
    """`words_of`, and the lines that the words stand in."""
    out = np.empty(int(((spans.ends - spans.starts) // 2 + 2).sum()) + 1, np.uint64)
    offsets = np.zeros(len(spans) + 1, np.int64)
    first, last = int(spans.starts.min(initial=0)), int(spans.ends.max(initial=0))
    room = len(spans) + np.count_nonzero(spans.buffer[first:last] == _LINE_FEED)
    text, places = np.empty(room, np.uint32), np.empty((room, 4), np.int64)
    after_blank, has_blank = np.zeros(room, bool), np.zeros(len(spans), bool)
    n = _pieces.words_by_line(
        spans.buffer,
        spans.starts,
        spans.ends,
        *table_arguments(),
        out,
        offsets,
        text,
        places,
        after_blank,
        has_blank,
    )
    return Words(out[: offsets[-1]], offsets), Lines(text[:n], places[:n], after_blank[:n], has_blank)


def words_of(spans: Spans) -> Words:
    """The words of texts, hashed once for all that looks at them."""
    out = np.empty(int(((spans.ends - spans.starts) // 2 + 2).sum()) + 1, np.uint64)
    offsets = np.zeros(len(spans) + 1, np.int64)
    total = 0
    if len(spans):
        total = _shingles.words_many(spans.buffer, spans.starts, spans.ends, *table_arguments(), out, offsets)
    return Words(out[:total], offsets)


def sketches(
    spans: Spans, n: int, size: int = _shingles.SKETCH
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]:
    """Bottom sketches `[spans, size]` and numbers of shingles `[spans]`."""
    out = np.empty((len(spans), size), np.uint64)
    counts = np.zeros(len(spans), np.uint32)
    if len(spans):
        _shingles.sketch_many(spans.buffer, spans.starts, spans.ends, *table_arguments(), n, out, counts)
    return out, counts


def shingle_sets(spans: Spans, n: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Whole shingle sets one after the other, and the offsets `[spans + 1]` that cut them."""
    room = int(((spans.ends - spans.starts) // 2 + 2).sum())
    out = np.empty(max(room, 1), np.uint64)
    offsets = np.zeros(len(spans) + 1, np.int64)
    total = 0
    if len(spans):
        total = _shingles.sets_many(
            spans.buffer, spans.starts, spans.ends, *table_arguments(), n, out, offsets
        )
    return out[:total], offsets


def lines_of(spans: Spans) -> tuple[npt.NDArray[np.uint32], Spans]:
    """Lines of every text that are not empty: text numbers, and their spans."""
    from umsicht.corpus.kernels.scan import line_spans

    room = int(((spans.ends - spans.starts) // 30 + 8).sum()) if len(spans) else 0
    while True:
        text, start, end = np.empty(room, np.uint32), np.empty(room, np.int64), np.empty(room, np.int64)
        total = line_spans(spans.buffer, spans.starts, spans.ends, text, start, end) if room else 0
        if total <= room:
            return text[:total], Spans(spans.buffer, start[:total].copy(), end[:total].copy())
        room = total


def whole_hashes(spans: Spans) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]:
    """Every text as one run of words: its hash and its number of words."""
    from umsicht.corpus.kernels.scan import whole_runs

    out, counts = np.zeros(len(spans), np.uint64), np.zeros(len(spans), np.uint32)
    if len(spans):
        whole_runs(spans.buffer, spans.starts, spans.ends, *table_arguments(), out, counts)
    return out, counts


BYTES_A_RUN = 32
"""A run found in so many bytes of text is expected at most; with more of them the search begins anew."""


def runs_in(
    spans: Spans,
    lengths: npt.NDArray[np.int64],
    table: npt.NDArray[np.uint64],
    mask: npt.NDArray[np.uint8],
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint64]]:
    """Runs of words that are in a table: text numbers and hashes."""
    from umsicht.corpus.kernels.scan import find_runs

    room = 4096 + int((spans.ends - spans.starts).sum()) // BYTES_A_RUN
    while len(spans) and len(lengths):
        text, value = np.empty(room, np.uint32), np.empty(room, np.uint64)
        total = find_runs(
            spans.buffer, spans.starts, spans.ends, *table_arguments(), lengths, table, mask, text, value
        )
        if total <= room:
            return text[:total], value[:total]
        room = total
    return np.empty(0, np.uint32), np.empty(0, np.uint64)


def run_sets(
    spans: Spans, run: int, shortest: int, speaks: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Different run hashes of every text one after the other, the offsets that cut them, and words of every text."""
    from umsicht.corpus.kernels import scan

    out = np.empty(int(((spans.ends - spans.starts) // 2 + 2).sum()) + 1, np.uint64)
    offsets, lengths = np.zeros(len(spans) + 1, np.int64), np.zeros(len(spans), np.int64)
    total = 0
    if len(spans):
        total = scan.run_sets(
            spans.buffer,
            spans.starts,
            spans.ends,
            *table_arguments(),
            run,
            shortest,
            speaks,
            out,
            offsets,
            lengths,
        )
    return out[:total], offsets, lengths
