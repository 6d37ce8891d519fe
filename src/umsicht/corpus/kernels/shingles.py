"""Shingles (runs of n words) of a text, its bottom sketch, and its whole set.

The sketch of a text is the `s` smallest hashes of its set of shingles (bottom-k: Cohen and Kaplan 2007, "Summarizing data using bottom-k
sketches"). Two texts of Jaccard similarity J share the smallest hash of their union with probability J each, so that none of the first k is shared
with probability about (1 - J)^k; a text contained in another one of 1/r its size finds itself with probability about 1 - (1 - r)^k.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from umsicht.corpus.kernels.jit import int64, kernel, readable, uint64, void, writable
from umsicht.corpus.kernels.words import BYTES, CODES, HASHES, hash_words, mix

SET = readable("uint64")
EDGES = readable("int64")

BASE = np.uint64(0x9E3779B97F4A7C15)
FULL = np.uint64(0xFFFFFFFFFFFFFFFF)
SKETCH = 32
"""Hashes kept of a text."""


@kernel(int64(SET, int64, int64, HASHES))
def hash_shingles(words: Any, n_words: int, n: int, out: Any) -> int:
    """Hashes of all runs of `n` words; a shorter text has one shingle, itself. Returns how many."""
    if n_words == 0:
        return 0
    if n_words < n:
        rolling = np.uint64(n_words)
        for i in range(n_words):
            rolling = rolling * BASE + words[i]
        out[0] = mix(rolling)
        return 1
    power = np.uint64(1)
    for _ in range(n - 1):
        power *= BASE
    rolling = np.uint64(0)
    for i in range(n - 1):
        rolling = rolling * BASE + words[i]
    count = n_words - n + 1
    ahead = np.uint64(n - 1)
    for i in range(np.uint64(count)):
        rolling = rolling * BASE + words[i + ahead]
        out[i] = mix(rolling)
        rolling -= words[i] * power
    return count


@kernel(void(HASHES, int64))
def _shell_sort(values: Any, n: int) -> None:
    """For few values (Shell 1959, with the gaps of Ciura 2001)."""
    count = np.uint64(n)
    for gap in (np.uint64(23), np.uint64(10), np.uint64(4), np.uint64(1)):
        for i in range(gap, count):
            value = values[i]
            j: Any = i
            while j >= gap and values[j - gap] > value:
                values[j] = values[j - gap]
                j -= gap
            values[j] = value


@kernel(int64(HASHES, int64))
def _sort_unique(values: Any, n: int) -> int:
    if n < 2:
        return n
    if n <= 96:
        _shell_sort(values, n)
    else:
        values[:n] = np.sort(values[:n])
    kept = 1
    for i in range(1, n):
        if values[i] != values[kept - 1]:
            values[kept] = values[i]
            kept += 1
    return kept


@kernel(int64(HASHES, int64, HASHES))
def count_different(values: Any, n: int, table: Any) -> int:
    """How many of the first n values differ, which then stand first in `values` in the order of their first appearance.

    `table` has room for a power of two of places, at least 2 n: an open-addressing set in which 0 is an empty place (a value 0 counts as 1).
    """
    size = 16
    while size < 2 * n:
        size *= 2
    for i in range(size):
        table[i] = np.uint64(0)
    last = np.uint64(size - 1)
    kept = 0
    for i in range(n):
        value = values[i] if values[i] != np.uint64(0) else np.uint64(1)
        at = (value * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(17) & last
        while table[at] != np.uint64(0) and table[at] != value:
            at = (at + np.uint64(1)) & last
        if table[at] == np.uint64(0):
            table[at] = value
            values[kept] = value
            kept += 1
    return kept


@kernel(int64(SET, int64, int64, HASHES, HASHES))
def _smallest(values: Any, n: int, wanted: int, scratch: Any, out: Any) -> int:
    """The `wanted` smallest different values, sorted. A threshold that lets a few more through saves the sorting of all."""
    share = (wanted * 1.25 + 10.0) / max(n, 1)
    while True:
        limit = FULL if share >= 1.0 else np.uint64(share * 18446744073709549568.0)
        at = np.uint64(0)
        for i in range(np.uint64(n)):
            scratch[at] = values[i]
            at += np.uint64(values[i] <= limit)
        count: Any = np.int64(at)
        found = _sort_unique(scratch, count)
        if found >= wanted or share >= 1.0:
            break
        share *= 2.0
    kept = min(found, wanted)
    for i in range(kept):
        out[i] = scratch[i]
    for i in range(kept, wanted):
        out[i] = FULL
    return kept


@kernel(int64(BYTES, EDGES, EDGES, CODES, CODES, HASHES, writable("int64")))
def words_many(buffer: Any, starts: Any, ends: Any, codes: Any, extra: Any, out: Any, offsets: Any) -> int:
    """The hashed words of every span one after the other in `out`, cut by `offsets [spans + 1]`. Returns the total."""
    total = 0
    for i in range(len(starts)):
        offsets[i] = total
        total += hash_words(buffer, starts[i], ends[i], codes, extra, out[total:])
    offsets[len(starts)] = total
    return total


@kernel(uint64(SET, int64, int64))
def hash_run(words: Any, first: int, last: int) -> Any:
    """The hash of a run of words as a whole; 0 of an empty one."""
    if last <= first:
        return np.uint64(0)
    rolling = np.uint64(last - first)
    for k in range(np.uint64(first), np.uint64(last)):
        rolling = rolling * BASE + words[k]
    return mix(rolling)


@kernel(int64(SET, int64, int64, HASHES, HASHES, HASHES))
def sketch_of(words: Any, n_words: int, n: int, shingles: Any, scratch: Any, out: Any) -> int:
    """The bottom sketch of a row of words in `out`; returns its number of shingles. `shingles` and `scratch` have room for as many as there are words."""
    count = hash_shingles(words, n_words, n, shingles)
    _smallest(shingles, count, len(out), scratch, out)
    return count


@kernel(void(BYTES, EDGES, EDGES, CODES, CODES, int64, writable("uint64", 2), writable("uint32")))
def sketch_many(
    buffer: Any, starts: Any, ends: Any, codes: Any, extra: Any, n: int, sketches: Any, sizes: Any
) -> None:
    """For every span: its bottom sketch (`sketches [spans, s]`, filled up with the largest integer) and its number of shingles."""
    longest = 0
    for i in range(len(starts)):
        longest = max(longest, ends[i] - starts[i])
    words = np.empty(longest // 2 + 2, np.uint64)
    shingles = np.empty(longest // 2 + 2, np.uint64)
    scratch = np.empty(longest // 2 + 2, np.uint64)
    for i in range(len(starts)):
        n_words = hash_words(buffer, starts[i], ends[i], codes, extra, words)
        sizes[i] = sketch_of(words, n_words, n, shingles, scratch, sketches[i])


@kernel(int64(BYTES, EDGES, EDGES, CODES, CODES, int64, HASHES, writable("int64")))
def sets_many(
    buffer: Any, starts: Any, ends: Any, codes: Any, extra: Any, n: int, out: Any, offsets: Any
) -> int:
    """The whole set of shingles of every span, sorted, one after the other in `out`; `offsets [spans + 1]` cut it. Returns the total."""
    longest = 0
    for i in range(len(starts)):
        longest = max(longest, ends[i] - starts[i])
    words = np.empty(longest // 2 + 2, np.uint64)
    shingles = np.empty(longest // 2 + 2, np.uint64)
    total = 0
    for i in range(len(starts)):
        n_words = hash_words(buffer, starts[i], ends[i], codes, extra, words)
        count = hash_shingles(words, n_words, n, shingles)
        count = _sort_unique(shingles, count)
        offsets[i] = total
        for k in range(count):
            out[total + k] = shingles[k]
        total += count
    offsets[len(starts)] = total
    return total


@kernel(int64(SET, SET))
def count_common(left: Any, right: Any) -> int:
    """Number of values that two sorted sets share."""
    i, j, common = 0, 0, 0
    while i < len(left) and j < len(right):
        a, b = left[i], right[j]
        if a == b:
            common += 1
            i += 1
            j += 1
        elif a < b:
            i += 1
        else:
            j += 1
    return common
