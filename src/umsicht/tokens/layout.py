"""How documents are laid into rows: which tokens row r of an epoch holds.

A layout is made of document lengths alone; nothing is copied until a row is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class Piece:
    """`length` tokens of `document` from token `start` on, placed at `at` in the row."""

    document: int
    start: int
    length: int
    at: int


class Layout(Protocol):
    """Rows of an epoch. A row spans `seq_len + 1` places: inputs and, shifted by one, targets."""

    @property
    def n_rows(self) -> int:
        """Rows of the whole epoch."""
        ...

    def pieces(self, row: int) -> list[Piece]:
        """What row `row` holds, in order of place."""
        ...


class Concatenated:
    """Documents strung together in the given order, cut every `seq_len` tokens; a document runs on in the next row.

    Neighbouring rows share one token, the last target of one being the first input of the next: every token except the very first is a
    target exactly once. Only the last row of an epoch can be short.
    """

    def __init__(self, order: Int64s, lengths: Int64s, seq_len: int) -> None:
        """`order` are document numbers, `lengths` their lengths in that order, both `[documents]`."""
        self.order, self.seq_len = order, seq_len
        self.ends = np.cumsum(lengths)
        self.total = int(self.ends[-1]) if len(order) else 0

    @property
    def n_rows(self) -> int:
        """Rows of the epoch."""
        return concatenated_rows(self.total, self.seq_len)

    def pieces(self, row: int) -> list[Piece]:
        """What row `row` holds."""
        begin = row * self.seq_len
        stop = min(begin + self.seq_len + 1, self.total)
        first = int(np.searchsorted(self.ends, begin, side="right"))
        last = int(np.searchsorted(self.ends, stop, side="left"))
        found = []
        place = begin
        before = int(self.ends[first - 1]) if first else 0
        for document, end in zip(
            self.order[first : last + 1].tolist(), self.ends[first : last + 1].tolist(), strict=True
        ):
            length = min(end, stop) - place
            found.append(Piece(document, place - before, length, place - begin))
            place, before = end, end
        return found


def concatenated_rows(total_tokens: int, seq_len: int) -> int:
    """Rows that `total_tokens` tokens fill: each token but the first is one target."""
    return max(0, -(-(total_tokens - 1) // seq_len))


class BestFit:
    """Documents kept whole where they fit (best-fit decreasing; Ding et al. 2024, "Fewer truncations improve language modeling").

    Documents longer than a row are first cut into full rows; what is left, and all shorter documents, go into the fullest row that still
    has room. Rows are padded, never filled with part of another document.
    """

    def __init__(self, order: Int64s, lengths: Int64s, seq_len: int) -> None:
        """As for `Concatenated`; the order only decides between equal lengths."""
        self.seq_len = seq_len
        self._documents, self._starts, self._lengths = _cut_long(order, lengths, seq_len)
        self._row_of = _best_fit(self._lengths, seq_len + 1)
        by_row = np.argsort(self._row_of, kind="stable")
        self._members = by_row
        self._bounds = np.searchsorted(self._row_of[by_row], np.arange(self.n_rows + 1))

    @property
    def n_rows(self) -> int:
        """Rows of the epoch."""
        return int(self._row_of.max()) + 1 if len(self._row_of) else 0

    def pieces(self, row: int) -> list[Piece]:
        """What row `row` holds."""
        at = 0
        found = []
        for member in self._members[self._bounds[row] : self._bounds[row + 1]].tolist():
            length = int(self._lengths[member])
            found.append(Piece(int(self._documents[member]), int(self._starts[member]), length, at))
            at += length
        return found


def _cut_long(order: Int64s, lengths: Int64s, seq_len: int) -> tuple[Int64s, Int64s, Int64s]:
    """Cut documents longer than a row into chunks of `seq_len + 1` that overlap by one token, so that no target is lost."""
    chunks = np.maximum(1, -(-(lengths - 1) // seq_len))
    documents = np.repeat(order, chunks)
    within = np.arange(len(documents)) - np.repeat(np.cumsum(chunks) - chunks, chunks)
    starts = within * seq_len
    sizes = np.minimum(np.repeat(lengths, chunks) - starts, seq_len + 1)
    return documents, starts.astype(np.int64), sizes.astype(np.int64)


def _best_fit(lengths: Int64s, capacity: int) -> Int64s:
    """Row of each chunk, longest first, each into the row with the least room that still suffices.

    Rows are kept by the room they have left and the smallest sufficient room is found in a tree of maxima over room sizes, so n chunks
    take O(n log capacity).
    """
    rows = np.empty(len(lengths), dtype=np.int64)
    by_room: list[list[int]] = [[] for _ in range(capacity + 1)]
    occupied = _Occupied(capacity + 1)
    n_rows = 0
    for index in np.argsort(-lengths, kind="stable").tolist():
        length = int(lengths[index])
        room = occupied.first_from(length)
        if room < 0:
            row, room = n_rows, capacity
            n_rows += 1
        else:
            row = by_room[room].pop()
            if not by_room[room]:
                occupied.clear(room)
        rows[index] = row
        left = room - length
        if left > 1:
            by_room[left].append(row)
            occupied.set(left)
    return rows


class _Occupied:
    """A set of small integers that finds its least member from a given one on: one Python integer used as a bit field."""

    def __init__(self, size: int) -> None:
        self._bits = 0
        self._size = size

    def set(self, number: int) -> None:
        self._bits |= 1 << number

    def clear(self, number: int) -> None:
        self._bits &= ~(1 << number)

    def first_from(self, number: int) -> int:
        """The least member that is not below `number`, or -1."""
        above = self._bits >> number
        return number + (above & -above).bit_length() - 1 if above else -1
