"""Parts of lines in which a short text may stand: what follows a label, and the cells of a row. On arrays, without a look at single bytes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from umsicht.corpus.kernels.spans import Spans

LABEL_BYTES = 24
"""A label ("Question 12: ") ends within so many bytes of a line."""
ROW_BYTES = 2_000
"""A longer line is no row of short cells."""
PORTION_BYTES = 4_000_000
_LABEL, _CELL, _SPACE = 1, 2, 4

_KINDS = np.zeros(256, np.uint8)
_KINDS[list(b":.)]")] = _LABEL
_KINDS[list(b"|,;<>\t")] = _CELL
_KINDS[list(b" \t")] |= _SPACE

Lines = tuple[npt.NDArray[np.uint32], Spans]


def portions(text: npt.NDArray[np.uint32], lines: Spans) -> Iterator[Lines]:
    """Lines in their order, a few megabytes of the buffer at a time."""
    first = 0
    while first < len(lines):
        last = max(int(np.searchsorted(lines.ends, lines.starts[first] + PORTION_BYTES)), first + 1)
        yield text[first:last], Spans(lines.buffer, lines.starts[first:last], lines.ends[first:last])
        first = last


def _kinds(lines: Spans) -> tuple[int, npt.NDArray[np.uint8]]:
    """Where the first line begins, and the kind of every byte from there to the end of the last one."""
    if not len(lines):
        return 0, np.zeros(0, np.uint8)
    first = int(lines.starts[0])
    return first, _KINDS[lines.buffer[first : int(lines.ends[-1])]]


def without_labels(text: npt.NDArray[np.uint32], lines: Spans) -> Lines:
    """Lines that begin with a label, from its end on, with the numbers of their texts."""
    first, kinds = _kinds(lines)
    ends = np.flatnonzero((kinds[:-1] & _LABEL != 0) & (kinds[1:] & _SPACE != 0)) + 1 + first
    at = np.searchsorted(ends, lines.starts)
    place = np.append(ends, np.iinfo(np.int64).max)[at]
    chosen = np.flatnonzero((place - lines.starts <= LABEL_BYTES) & (place < lines.ends))
    return text[chosen], Spans(lines.buffer, place[chosen].astype(np.int64), lines.ends[chosen].copy())


def cells(text: npt.NDArray[np.uint32], lines: Spans) -> Lines:
    """Parts of lines between commas, semicolons, bars, tabs and angle brackets, with the numbers of their texts."""
    begin, kinds = _kinds(lines)
    cuts = np.flatnonzero(kinds & _CELL) + begin
    first, last = np.searchsorted(cuts, lines.starts), np.searchsorted(cuts, lines.ends)
    rows = np.flatnonzero((last > first) & (lines.ends - lines.starts <= ROW_BYTES))
    counts = (last - first)[rows] + 1
    owner = np.repeat(rows, counts)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    before, after = first[owner] + number - 1, first[owner] + number
    padded = np.append(cuts, 0)
    starts = np.where(number == 0, lines.starts[owner], padded[before] + 1)
    ends = np.where(after == last[owner], lines.ends[owner], padded[after])
    return text[owner], Spans(lines.buffer, starts.astype(np.int64), ends.astype(np.int64))
