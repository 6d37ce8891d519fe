"""Looking up runs of words in a table of fingerprints."""

from __future__ import annotations

from typing import Any

import numpy as np

from umsicht.corpus.kernels.jit import int64, kernel, readable, writable
from umsicht.corpus.kernels.shingles import EDGES, SET, _sort_unique, hash_run, hash_shingles
from umsicht.corpus.kernels.words import BYTES, CODES, hash_words

EMPTY = np.uint64(0)


def build_table(values: Any) -> Any:
    """Open-addressing table (linear probing, at most three quarters full) of 64-bit hashes; 0 marks an empty place."""
    size = 1 << max(4, (4 * len(values) // 3).bit_length())
    table = np.zeros(size, np.uint64)
    if len(values):
        _fill(np.ascontiguousarray(values, np.uint64), table)
    return table


def build_filter(values: Any) -> Any:
    """Sixteen bits a hash, indexed by its upper bits: it fits into a processor's cache and turns most look-ups away."""
    bits = max(16, int(16 * len(values)).bit_length())
    mask = np.zeros(1 << (bits - 3), np.uint8)
    if len(values):
        at = np.asarray(values, np.uint64) >> np.uint64(64 - bits)
        np.bitwise_or.at(
            mask, (at >> np.uint64(3)).astype(np.int64), np.uint8(1) << (at & np.uint64(7)).astype(np.uint8)
        )
    return mask


@kernel(int64(SET, writable("uint64")))
def _fill(values: Any, table: Any) -> int:
    last = np.uint64(len(table) - 1)
    for value in values:
        at = value & last
        while table[at] != EMPTY and table[at] != value:
            at = (at + np.uint64(1)) & last
        table[at] = value
    return len(values)


@kernel(
    int64(
        BYTES,
        EDGES,
        EDGES,
        CODES,
        CODES,
        readable("int64"),
        SET,
        BYTES,
        writable("uint32"),
        writable("uint64"),
    )
)
def find_runs(
    buffer: Any,
    starts: Any,
    ends: Any,
    codes: Any,
    extra: Any,
    lengths: Any,
    table: Any,
    mask: Any,
    found_text: Any,
    found_hash: Any,
) -> int:
    """All runs of the given lengths (in words) whose hash is in `table`: number of the text, and the hash.

    Returns how many there are; only as many as fit are written, so that a caller may come again with more room.
    """
    longest = 0
    for i in range(len(starts)):
        longest = max(longest, ends[i] - starts[i])
    words = np.empty(longest // 2 + 2, np.uint64)
    runs = np.empty(longest // 2 + 2, np.uint64)
    last = np.uint64(len(table) - 1)
    shift = np.uint64(64)
    for _ in range(64):
        if (np.uint64(len(mask)) << np.uint64(3)) >> (np.uint64(64) - shift) == np.uint64(1):
            break
        shift -= np.uint64(1)
    room = len(found_text)
    total = 0
    for i in range(len(starts)):
        n_words = hash_words(buffer, starts[i], ends[i], codes, extra, words)
        for length in lengths:
            if n_words < length:
                continue
            count = hash_shingles(words, n_words, length, runs)
            for k in range(np.uint64(count)):
                value = runs[k]
                place = value >> shift
                if mask[place >> np.uint64(3)] & (np.uint8(1) << np.uint8(place & np.uint64(7))) == 0:
                    continue
                at = value & last
                while table[at] != EMPTY:
                    if table[at] == value:
                        if total < room:
                            found_text[total] = i
                            found_hash[total] = value
                        total += 1
                        break
                    at = (at + np.uint64(1)) & last
    return total


@kernel(int64(BYTES, BYTES, EDGES, EDGES, writable("uint8")))
def gather(first: Any, second: Any, starts: Any, ends: Any, out: Any) -> int:
    """Copy spans one after the other; places from the length of `first` on lie in `second`. Returns the total."""
    total = 0
    border = len(first)
    for i in range(len(starts)):
        size = ends[i] - starts[i]
        if starts[i] < border:
            out[total : total + size] = first[starts[i] : ends[i]]
        else:
            out[total : total + size] = second[starts[i] - border : ends[i] - border]
        total += size
    return total


@kernel(
    int64(
        BYTES,
        EDGES,
        EDGES,
        CODES,
        CODES,
        int64,
        int64,
        readable("boolean"),
        writable("uint64"),
        writable("int64"),
        writable("int64"),
    )
)
def run_sets(
    buffer: Any,
    starts: Any,
    ends: Any,
    codes: Any,
    extra: Any,
    run: int,
    shortest: int,
    speaks: Any,
    out: Any,
    offsets: Any,
    lengths: Any,
) -> int:
    """Different hashes of the runs of every text, sorted, one text after the other in `out`, cut by `offsets [texts + 1]`; `lengths` in words.

    A text of fewer than `run` words but at least `shortest` is one run, if it speaks; otherwise it has none. One that does not speak has length 0.
    """
    longest = 0
    for i in range(len(starts)):
        longest = max(longest, ends[i] - starts[i])
    words = np.empty(longest // 2 + 2, np.uint64)
    runs = np.empty(longest // 2 + 2, np.uint64)
    total = 0
    for i in range(len(starts)):
        offsets[i] = total
        n_words = hash_words(buffer, starts[i], ends[i], codes, extra, words)
        lengths[i] = n_words if n_words >= run or speaks[i] else 0
        count = 0
        if n_words >= run:
            count = hash_shingles(words, n_words, run, runs)
        elif lengths[i] >= shortest:
            count = hash_shingles(words, n_words, n_words, runs)
        count = _sort_unique(runs, count)
        for k in range(count):
            out[total + k] = runs[k]
        total += count
    offsets[len(starts)] = total
    return total


@kernel(int64(BYTES, EDGES, EDGES, CODES, CODES, writable("uint64"), writable("uint32")))
def whole_runs(buffer: Any, starts: Any, ends: Any, codes: Any, extra: Any, out: Any, counts: Any) -> int:
    """Hash of each text as one run of all its words, and its number of words. A text without words has hash 0."""
    longest = 0
    for i in range(len(starts)):
        longest = max(longest, ends[i] - starts[i])
    words = np.empty(longest // 2 + 2, np.uint64)
    for i in range(len(starts)):
        counts[i] = hash_words(buffer, starts[i], ends[i], codes, extra, words)
        out[i] = hash_run(words, 0, counts[i])
    return len(starts)


@kernel(int64(BYTES, EDGES, EDGES, writable("uint32"), writable("int64"), writable("int64")))
def line_spans(buffer: Any, starts: Any, ends: Any, out_text: Any, out_start: Any, out_end: Any) -> int:
    """Lines of every text that are not empty: its number, start and end in the buffer, line end left out.

    Returns how many; writes only where there is room.
    """
    total = 0
    room = len(out_text)
    one = np.uint64(1)
    for i in range(len(starts)):
        position, end = np.uint64(starts[i]), np.uint64(ends[i])
        while position < end:
            first = position
            while position < end and buffer[position] != 10:
                position += one
            if position > first:
                if total < room:
                    out_text[total] = i
                    out_start[total] = first
                    out_end[total] = position
                total += 1
            position += one
    return total
