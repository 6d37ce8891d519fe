"""Scoring a text with a fastText classifier (Joulin et al. 2016, "Bag of tricks for efficient text classification"): mean of the vectors of its words
and of their character n-grams, then a walk down the hierarchical softmax. The package `fasttext-predict` is the twin that tests hold it to.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from umsicht.corpus.kernels.jit import inline, int64, kernel, readable, uint64, void, writable
from umsicht.corpus.kernels.shingles import EDGES
from umsicht.corpus.kernels.words import BYTES

DIMENSION = 16
"""Of the vectors; a constant, so that sums of vectors are a few instructions."""
WIDE = np.uint64(DIMENSION)
LONGEST_WORD = 1_000
INTS = readable("int32")
FLOATS = readable("float32")
MARKS = readable("uint64")


@inline
def _step(value: Any, b: Any) -> Any:
    """FNV-1a on signed bytes, as fastText has it."""
    wide = np.uint32(b) | (np.uint32(0xFFFFFF00) if b >= 128 else np.uint32(0))
    return np.uint32((value ^ wide) * np.uint32(16777619))


@kernel(uint64(BYTES, int64, int64))
def hash_of(buffer: Any, start: int, end: int) -> int:
    """The 64-bit FNV-1a of a word."""
    value: Any = np.uint64(0xCBF29CE484222325)
    for i in range(start, end):
        value = (value ^ np.uint64(buffer[i])) * np.uint64(0x100000001B3)
    return value  # type: ignore[no-any-return]


@inline
def _word_end(buffer: Any, at: Any, end: Any) -> Any:
    """The space after a word, or the end of the text."""
    while at < end and buffer[at] != 32:
        at += 1
    return at


@kernel(int64(readable("uint64"), INTS, uint64))
def find_word(keys: Any, rows: Any, value: Any) -> int:
    """The row of a word by its hash; -1 where the vocabulary does not have it."""
    last = np.uint64(len(keys) - 1)
    at = value & last
    while rows[at] != -1:
        if keys[at] == value:
            return rows[at]  # type: ignore[no-any-return]
        at = (at + np.uint64(1)) & last
    return -1


@inline
def _ones(value: Any) -> Any:
    """How many bits are set (Warren 2012, "Hacker's Delight", figure 5-2)."""
    value -= (value >> np.uint64(1)) & np.uint64(0x5555555555555555)
    value = (value & np.uint64(0x3333333333333333)) + (
        (value >> np.uint64(2)) & np.uint64(0x3333333333333333)
    )
    value = (value + (value >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (value * np.uint64(0x0101010101010101)) >> np.uint64(56)


@kernel(int64(BYTES, int64, INTS, writable("uint32"), int64))
def _hash_ngrams(word: Any, size: int, sizes: Any, out: Any, n_out: int) -> int:
    """Hashes of the n-grams of `<word>`, from place `n_out` of `out` on; `sizes` are least and greatest n. Returns how many there are then."""
    least, greatest = sizes[0], sizes[1]
    place, stop, one = np.uint64(n_out), np.uint64(size), np.uint64(1)
    for i in range(stop):
        if word[i] & 0xC0 == 0x80:
            continue
        value = np.uint32(2166136261)
        j: Any = i
        n = 1
        while j < stop and n <= greatest:
            value = _step(value, word[j])
            j += one
            while j < stop and word[j] & 0xC0 == 0x80:
                value = _step(value, word[j])
                j += one
            out[place] = value
            place += np.uint64(n >= least and not (n == 1 and (i == np.uint64(0) or j == stop)))
            n += 1
    count: Any = np.int64(place)
    return count  # type: ignore[no-any-return]  # an int64 once compiled


@kernel(int64(readable("uint32"), int64, int64, MARKS, INTS, writable("int32")))
def _rows_of(hashes: Any, count: int, buckets: int, marks: Any, ranks: Any, out: Any) -> int:
    """Rows of those n-grams that have a vector, without a branch. Returns how many.

    `marks` is one bit a bucket, `ranks` the number of bits before each 64 of them. The remainder is a product with 2^52 / buckets, which is at most one
    multiple short.
    """
    divisor = np.uint64(buckets)
    inverse = np.uint64(1 << 52) // divisor
    found = np.uint64(0)
    for i in range(np.uint64(count)):
        value = np.uint64(hashes[i])
        left = value - ((value * inverse) >> np.uint64(52)) * divisor
        left -= divisor * np.uint64(left >= divisor)
        place = left >> np.uint64(6)
        bit = left & np.uint64(63)
        mark = marks[place]
        out[found] = ranks[place] + np.int64(_ones(mark & ((np.uint64(1) << bit) - np.uint64(1))))
        found += (mark >> bit) & np.uint64(1)
    kept: Any = np.int64(found)
    return kept  # type: ignore[no-any-return]


@inline
def _add(vectors: Any, first: Any, hidden: Any) -> None:
    """Add one vector. Places are unsigned: signed ones cost a sign test at every access."""
    for k in range(WIDE):
        hidden[k] += vectors[first + k]


@kernel(
    void(
        BYTES,
        EDGES,
        EDGES,
        INTS,
        MARKS,
        INTS,
        readable("uint64"),
        INTS,
        FLOATS,
        FLOATS,
        writable("float32", 2),
    )
)
def score_nodes(
    buffer: Any,
    starts: Any,
    ends: Any,
    sizes: Any,
    marks: Any,
    ranks: Any,
    word_keys: Any,
    word_rows: Any,
    vectors: Any,
    output: Any,
    out: Any,
) -> None:
    """Log-odds `out [texts, labels - 1]` of every inner node of the tree. Texts are words with single spaces.

    `vectors` are rows one after the other, of words first, then of n-grams in the order of their buckets; `output [DIMENSION * nodes]` are the vectors of
    the nodes, the first number of all nodes first. `sizes` are least n, greatest n, buckets, and the row of the end of a line (-1: none). All n-grams of
    a text are hashed first and looked up afterwards, so that no look-up waits for another.
    """
    nodes = out.shape[1]
    hidden = np.zeros(DIMENSION, np.float32)
    word = np.empty(LONGEST_WORD + 2, np.uint8)
    longest: Any = 0
    for text in range(len(starts)):
        longest = max(longest, ends[text] - starts[text])
    room = (3 * longest + 4) * sizes[1] + 16
    hashes, rows = np.empty(room, np.uint32), np.empty(room, np.int32)
    for text in range(len(out)):
        hidden[:] = 0
        found: Any = 0
        count: Any = 0
        end = ends[text]
        at = starts[text]
        while at < end:
            stop = _word_end(buffer, at, end)
            row = find_word(word_keys, word_rows, hash_of(buffer, at, stop))
            if row >= 0:
                found += 1
                _add(vectors, np.uint64(row) * WIDE, hidden)
            size = min(stop - at, LONGEST_WORD)
            word[0] = 60
            for k in range(size):
                word[k + 1] = buffer[at + k]
            word[size + 1] = 62
            count = _hash_ngrams(word, size + 2, sizes, hashes, count)
            at = stop + 1
        count = _rows_of(hashes, count, sizes[2], marks, ranks, rows)
        for i in range(np.uint64(count)):
            _add(vectors, np.uint64(rows[i]) * WIDE, hidden)
        found += count
        if sizes[3] >= 0:
            found += 1
            _add(vectors, np.uint64(sizes[3]) * WIDE, hidden)
        mine = out[text]
        mine[:] = 0
        for k in range(DIMENSION):
            share = hidden[k] / np.float32(max(found, 1))
            first = np.uint64(k * nodes)
            for node in range(np.uint64(nodes)):
                mine[node] += output[first + node] * share


@kernel(void(BYTES, EDGES, EDGES, readable("uint64"), INTS, writable("int32", 2)))
def count_words(buffer: Any, starts: Any, ends: Any, keys: Any, values: Any, out: Any) -> None:
    """How many words of every text are listed, by what the list says of them: `out [texts, different values]`."""
    for text in range(len(out)):
        end = ends[text]
        at = starts[text]
        while at < end:
            stop = _word_end(buffer, at, end)
            value = find_word(keys, values, hash_of(buffer, at, stop))
            if value >= 0:
                out[text, value] += 1
            at = stop + 1


@kernel(void(readable("float32", 2), INTS, writable("float32", 2)))
def walk_tree(right: Any, children: Any, out: Any) -> None:
    """Probabilities `out [texts, labels]` out of those of going right at every inner node, whose left and right child are in `children`."""
    labels = out.shape[1]
    score = np.zeros(2 * labels, np.float32)
    for text in range(len(out)):
        score[2 * labels - 2] = 1.0
        for node in range(2 * labels - 2, labels - 1, -1):
            inner = node - labels
            share = right[text, inner]
            score[children[2 * inner]] = score[node] * (np.float32(1) - share)
            score[children[2 * inner + 1]] = score[node] * share
        for label in range(labels):
            out[text, label] = score[label]
