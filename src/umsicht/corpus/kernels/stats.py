"""Counts that the quality heuristics are made of, all in one pass over each text."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from umsicht.corpus.kernels.jit import int64, kernel, readable, uint64, void, writable
from umsicht.corpus.kernels.shingles import EDGES, count_different, hash_shingles
from umsicht.corpus.kernels.words import BYTES, CODES, HASHES, PRIME, S32

COLUMNS = (
    "characters",
    "words",
    "letters",
    "lines",
    "bullets",
    "ellipses",
    "ended",
    "short",
    "symbols",
    "braces",
    "alone",
    "repeated",
    "repeated_lines",
    "tokens",
)
"""`words` are runs between spaces; `tokens` folded words (one a character in scripts without spaces, counted in `alone`); `repeated` is the share of
5-word runs that stand more than once, `repeated_lines` the share of lines that do."""


LETTER, SYMBOL, BRACE, CHARACTER = 0, 16, 32, 48
"""Shifts of four counters in one word: a byte adds to several of them with one addition."""


@functools.cache
def byte_counts() -> npt.NDArray[np.uint64]:
    """What every byte adds to the counters."""
    counts = np.zeros(256, np.uint64)
    for b in range(256):
        value = int(b & 0xC0 != 0x80) << CHARACTER
        value |= int(65 <= b <= 90 or 97 <= b <= 122 or b >= 0xC3) << LETTER
        value |= int(b == 35) << SYMBOL | int(b in (123, 125)) << BRACE
        counts[b] = value
    return counts


@kernel(void(BYTES, int64, int64, readable("uint64"), writable("int64")))
def _count_bytes(buffer: Any, start: int, end: int, counts: Any, out: Any) -> None:
    """Letters, symbols, braces, characters, words between spaces in `out [5]`. No counter of 16 bits can run over in 60,000 bytes."""
    out[:] = 0
    gap = True
    first: Any = start
    while first < end:
        stop = min(first + 60_000, end)
        total = np.uint64(0)
        words = 0
        for i in range(np.uint64(first), np.uint64(stop)):
            b = buffer[i]
            total += counts[b]
            space = (b == 32) | (b == 9) | (b == 10)
            words += gap & (not space)
            gap = space
        for k in range(4):
            out[k] += np.int64((total >> np.uint64(16 * k)) & np.uint64(0xFFFF))
        out[4] += words
        first = stop


@kernel(int64(BYTES, int64, int64, CODES))
def _count_alone(buffer: Any, start: int, end: int, codes: Any) -> int:
    """Characters of scripts without spaces, all of which take three bytes."""
    found = 0
    for i in range(start, end - 2):
        b = buffer[i]
        if b >= 0xE0 and b < 0xF0:
            c = (
                ((np.uint32(b) & np.uint32(15)) << np.uint32(12))
                | ((np.uint32(buffer[i + 1]) & np.uint32(63)) << np.uint32(6))
                | (np.uint32(buffer[i + 2]) & np.uint32(63))
            )
            found += codes[c] >= np.uint32(0x80000000)
    return found


@kernel(uint64(BYTES, int64, int64))
def _hash_bytes(buffer: Any, start: int, end: int) -> int:
    """A hash of bytes, eight at a time."""
    value: Any = np.uint64(end - start)
    k = np.uint64(start)
    stop = np.uint64(end)
    while k + np.uint64(8) <= stop:
        eight = np.uint64(0)
        for j in range(np.uint64(8)):
            eight |= np.uint64(buffer[k + j]) << (np.uint64(8) * j)
        value = (value ^ eight) * PRIME
        value ^= value >> S32
        k += np.uint64(8)
    while k < stop:
        value = (value ^ np.uint64(buffer[k])) * PRIME
        k += np.uint64(1)
    return value ^ (value >> S32)  # type: ignore[no-any-return]  # an uint64 once compiled


@kernel(int64(BYTES, int64, int64, writable("uint64"), writable("int64")))
def _read_lines(buffer: Any, start: int, end: int, lines: Any, out: Any) -> int:
    """Hashes of the lines that are not empty in `lines`; bullets, ellipses, ended and short ones in `out [4]`. Returns how many."""
    out[:] = 0
    n = 0
    line_start: Any = start
    while line_start < end:
        ahead, stop = np.uint64(line_start), np.uint64(end)
        while ahead < stop and buffer[ahead] != 10:
            ahead += np.uint64(1)
        position: Any = np.int64(ahead)
        first, last = line_start, position
        while first < last and (buffer[first] == 32 or buffer[first] == 9):
            first += 1
        while last > first and (buffer[last - 1] == 32 or buffer[last - 1] == 9):
            last -= 1
        size = last - first
        if size > 0:
            lines[n] = _hash_bytes(buffer, first, last)
            n += 1
            a, z = buffer[first], buffer[last - 1]
            dot = size >= 3 and a == 0xE2 and buffer[first + 1] == 0x80 and buffer[first + 2] == 0xA2
            out[0] += a == 45 or a == 42 or dot
            dots = size >= 3 and z == 46 and buffer[last - 2] == 46 and buffer[last - 3] == 46
            dots |= size >= 3 and z == 0xA6 and buffer[last - 2] == 0x80 and buffer[last - 3] == 0xE2
            out[1] += dots
            sign = z == 46 or z == 33 or z == 63 or z == 34 or z == 39 or z == 58 or z == 59 or z == 41
            out[2] += sign or z >= 0x80
            out[3] += size < 30
        line_start = position + 1
    return n


@kernel(void(BYTES, EDGES, EDGES, HASHES, EDGES, CODES, readable("uint64"), writable("float32", 2)))
def text_stats(
    buffer: Any, starts: Any, ends: Any, words: Any, offsets: Any, codes: Any, counts: Any, out: Any
) -> None:
    """Fill `out [texts, 14]` with the columns named in `COLUMNS`; `words` are the hashed words of all texts, cut by `offsets`."""
    longest: Any = 0
    for i in range(len(starts)):
        longest = max(longest, ends[i] - starts[i])
    runs = np.empty(longest // 2 + 2, np.uint64)
    lines = np.empty(longest + 2, np.uint64)
    table = np.empty(2 * longest + 32, np.uint64)
    by_byte = np.zeros(5, np.int64)
    by_line = np.zeros(4, np.int64)
    for i in range(len(starts)):
        start, end = starts[i], ends[i]
        mine = words[offsets[i] : offsets[i + 1]]
        n_words = len(mine)
        n_runs = hash_shingles(mine, n_words, 5, runs)
        different = count_different(runs, n_runs, table)
        _count_bytes(buffer, start, end, counts, by_byte)
        n_lines = _read_lines(buffer, start, end, lines, by_line)
        different_lines = count_different(lines, n_lines, table)
        row = out[i]
        row[0], row[1], row[2], row[3] = by_byte[3], by_byte[4], by_byte[0], n_lines
        row[4], row[5], row[6], row[7] = by_line[0], by_line[1], by_line[2], by_line[3]
        row[8], row[9] = by_byte[1], by_byte[2]
        row[10] = _count_alone(buffer, start, end, codes) if by_byte[3] < end - start else 0
        row[11] = 1.0 - different / max(n_runs, 1)
        row[12] = 1.0 - different_lines / max(n_lines, 1)
        row[13] = n_words
