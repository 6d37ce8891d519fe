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
LONGEST_WORD = 1_000
KNOWN_WORDS = 1 << 14
"""Words whose sums are remembered, from one batch of texts to the next: in running text most words come back soon. A power of two."""
INTS = readable("int32")
FLOATS = readable("float32")


@inline
def _step(value: Any, b: Any) -> Any:
    """FNV-1a on signed bytes, as fastText has it."""
    wide = np.uint32(b) | (np.uint32(0xFFFFFF00) if b >= 128 else np.uint32(0))
    return np.uint32((value ^ wide) * np.uint32(16777619))


@kernel(int64(readable("uint64"), readable("uint64"), int64))
def find_row(mask: Any, table: Any, key: Any) -> int:
    """Look a key up; -1 where it is not. `mask` is one bit a key, `table` holds `key << 32 | row` and -1 (all bits) for an empty place."""
    wanted = np.uint64(key)
    if (mask[wanted >> np.uint64(6)] >> (wanted & np.uint64(63))) & np.uint64(1) == np.uint64(0):
        return -1
    last = np.uint64(len(table) - 1)
    at = (wanted * np.uint64(2654435761)) & last
    while table[at] >> np.uint64(32) != wanted:
        at = (at + np.uint64(1)) & last
    row: Any = np.int64(table[at] & np.uint64(0xFFFFFFFF))
    return row  # type: ignore[no-any-return]  # an int64 once compiled


@kernel(uint64(BYTES, int64, int64))
def hash_of(buffer: Any, start: int, end: int) -> int:
    """The 64-bit FNV-1a of a word."""
    value: Any = np.uint64(0xCBF29CE484222325)
    for i in range(start, end):
        value = (value ^ np.uint64(buffer[i])) * np.uint64(0x100000001B3)
    return value  # type: ignore[no-any-return]


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
def _remainder(value: Any, divisor: Any, inverse: Any) -> Any:
    """`value % divisor` by a product with `1 / divisor`, which is off by one at most; a division takes several times as long."""
    left = np.int64(value) - np.int64(np.float64(value) * inverse) * divisor
    if left < 0:
        left += divisor
    elif left >= divisor:
        left -= divisor
    return left


@kernel(int64(BYTES, int64, INTS, readable("uint64"), readable("uint64"), FLOATS, writable("float32")))
def _add_ngrams(word: Any, size: int, sizes: Any, mask: Any, table: Any, vectors: Any, hidden: Any) -> int:
    """Add the vectors of the n-grams of `<word>`; `sizes` are least n, greatest n, buckets, and the row of the end of a line. Returns how many."""
    found = 0
    buckets = np.int64(sizes[2])
    inverse = 1.0 / np.float64(buckets)
    for i in range(size):
        if word[i] & 0xC0 == 0x80:
            continue
        value = np.uint32(2166136261)
        j: Any = i
        n = 1
        while j < size and n <= sizes[1]:
            value = _step(value, word[j])
            j += 1
            while j < size and word[j] & 0xC0 == 0x80:
                value = _step(value, word[j])
                j += 1
            if n >= sizes[0] and not (n == 1 and (i == 0 or j == size)):
                row = find_row(mask, table, _remainder(value, buckets, inverse))
                if row >= 0:
                    found += 1
                    first = row * DIMENSION
                    for k in range(DIMENSION):
                        hidden[k] += vectors[first + k]
            n += 1
    return found


@kernel(
    void(
        BYTES,
        EDGES,
        INTS,
        readable("uint64"),
        readable("uint64"),
        readable("uint64"),
        INTS,
        FLOATS,
        FLOATS,
        writable("uint64"),
        writable("int64"),
        writable("float32", 2),
        writable("float32", 2),
    )
)
def score_nodes(
    buffer: Any,
    offsets: Any,
    sizes: Any,
    ngram_mask: Any,
    ngram_table: Any,
    word_keys: Any,
    word_rows: Any,
    vectors: Any,
    output: Any,
    known: Any,
    counts: Any,
    sums: Any,
    out: Any,
) -> None:
    """Log-odds `out [texts, labels - 1]` of every inner node of the tree. Texts are words with single spaces, one after the other in `buffer`,
    cut by `offsets`.

    `vectors` are rows one after the other; `output [DIMENSION * nodes]` are the vectors of the nodes, the first number of all nodes first.
    The vector of the end of a line is the last row but is only there where `sizes[3]` says so. `known`, `counts` and `sums` remember words.
    """
    nodes = out.shape[1]
    hidden = np.zeros(DIMENSION, np.float32)
    word = np.empty(LONGEST_WORD + 2, np.uint8)
    last = np.uint64(len(known) - 1)
    for text in range(len(out)):
        hidden[:] = 0
        found: Any = 0
        start = offsets[text]
        end = offsets[text + 1]
        at = start
        while at < end:
            stop = at
            while stop < end and buffer[stop] != 32:
                stop += 1
            value = hash_of(buffer, at, stop)
            place = np.int64((value ^ (value >> np.uint64(29))) & last)
            mine = sums[place]
            if known[place] != value:
                known[place] = value
                mine[:] = 0
                size = min(stop - at, LONGEST_WORD)
                word[0] = 60
                for k in range(size):
                    word[k + 1] = buffer[at + k]
                word[size + 1] = 62
                row = find_word(word_keys, word_rows, value)
                if row >= 0:
                    for k in range(DIMENSION):
                        mine[k] += vectors[row * DIMENSION + k]
                counts[place] = (row >= 0) + _add_ngrams(
                    word, size + 2, sizes, ngram_mask, ngram_table, vectors, mine
                )
            found += counts[place]
            for k in range(DIMENSION):
                hidden[k] += mine[k]
            at = stop + 1
        if sizes[3] >= 0:
            found += 1
            for k in range(DIMENSION):
                hidden[k] += vectors[sizes[3] * DIMENSION + k]
        mine = out[text]
        mine[:] = 0
        for k in range(DIMENSION):
            share = hidden[k] / np.float32(max(found, 1))
            first = k * nodes
            for node in range(nodes):
                mine[node] += output[first + node] * share


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
