"""Hashed features of a text for the light classifiers: words, pairs of neighbours, and the shapes that words hide (digits, capitals, signs)."""

from __future__ import annotations

from typing import Any

import numpy as np

from umsicht.corpus.kernels.jit import inline, int64, kernel, readable, void, writable
from umsicht.corpus.kernels.shingles import EDGES, count_different
from umsicht.corpus.kernels.words import BYTES, CODES, hash_words, mix

PAIR = np.uint64(0xD6E8FEB86659FD93)
SHAPES = 48
"""Room for shape features."""


@inline
def _bucket_of(share: Any) -> Any:
    """A share on a coarse logarithmic scale, 0 to 7."""
    step = 0
    limit = 0.005
    while step < 7 and share > limit:
        limit *= 2.2
        step += 1
    return step


@kernel(int64(BYTES, int64, int64, writable("uint64"), int64))
def _shapes(buffer: Any, start: int, end: int, out: Any, n: int) -> int:
    """Shares of capitals, digits, signs, and the shapes of words with digits in them."""
    capitals = digits = letters = shouts = money = percent = links = 0
    run = run_digits = 0
    for i in range(start, end):
        b = buffer[i]
        digit = b >= 48 and b <= 57
        capital = b >= 65 and b <= 90
        letter = capital or (b >= 97 and b <= 122)
        capitals += capital
        digits += digit
        letters += letter
        shouts += b == 33
        percent += b == 37
        money += b == 36
        if b == 0xA3 and i > start and buffer[i - 1] == 0xC2:
            money += 1
        if b == 0xAC and i > start + 1 and buffer[i - 1] == 0x82 and buffer[i - 2] == 0xE2:
            money += 1
        links += b == 58 and i + 2 < end and buffer[i + 1] == 47 and buffer[i + 2] == 47
        if digit or letter:
            run += 1
            run_digits += digit
        if not (digit or letter) or i == end - 1:
            if run_digits > 0 and n < len(out):
                kind = 0 if run_digits == run else 1
                out[n] = mix(np.uint64(1_000_003) + np.uint64(min(run, 12) * 2 + kind))
                n += 1
            run = run_digits = 0
    size = max(end - start, 1)
    values = (
        _bucket_of(capitals / max(letters, 1)),
        _bucket_of(digits / size),
        _bucket_of(shouts / size * 4.0),
        _bucket_of(money / size * 8.0),
        _bucket_of(percent / size * 8.0),
        min(links, 3),
    )
    for k in range(6):
        if n < len(out):
            out[n] = mix(np.uint64(2_000_003) + np.uint64(k * 16) + np.uint64(values[k]))
            n += 1
    return n


@kernel(
    int64(
        BYTES, int64, int64, CODES, CODES, int64, writable("uint64"), writable("uint64"), writable("uint64")
    )
)
def features(
    buffer: Any, start: int, end: int, codes: Any, extra: Any, bits: int, words: Any, out: Any, table: Any
) -> int:
    """Different feature numbers (below 2^bits) of one text in the order of their first appearance, in `out`. Returns how many."""
    n_words = hash_words(buffer, start, end, codes, extra, words)
    shift = np.uint64(64 - bits)
    n = 0
    for i in range(n_words):
        out[n] = mix(words[i])
        n += 1
        if i > 0:
            out[n] = mix(words[i - 1] * PAIR + words[i])
            n += 1
    n = _shapes(buffer, start, end, out, n)
    for i in range(n):
        out[i] = (out[i] >> shift) + np.uint64(1)
    n = count_different(out, n, table)
    for i in range(n):
        out[i] -= np.uint64(1)
    return n


@kernel(void(BYTES, EDGES, EDGES, CODES, CODES, int64, readable("float32"), int64, writable("float32")))
def score_many(
    buffer: Any, starts: Any, ends: Any, codes: Any, extra: Any, bits: int, weights: Any, limit: int, out: Any
) -> None:
    """Log-odds of every text: bias (the last weight) plus the sum of its features' weights over the root of their number.

    Only the first `limit` bytes of a text are looked at.
    """
    words = np.empty(limit // 2 + 2, np.uint64)
    found = np.empty(2 * limit + SHAPES, np.uint64)
    table = np.empty(8 * limit + 4 * SHAPES, np.uint64)
    for i in range(len(starts)):
        end = min(ends[i], starts[i] + limit)
        n = features(buffer, starts[i], end, codes, extra, bits, words, found, table)
        total = 0.0
        for k in range(n):
            total += weights[found[k]]
        out[i] = weights[len(weights) - 1] + total / np.sqrt(max(n, 1))


@kernel(
    void(
        BYTES,
        EDGES,
        EDGES,
        CODES,
        CODES,
        int64,
        readable("float32"),
        readable("int64"),
        int64,
        readable("float64", 2),
        writable("float32"),
        writable("float32"),
    )
)
def train_epoch(
    buffer: Any,
    starts: Any,
    ends: Any,
    codes: Any,
    extra: Any,
    bits: int,
    labels: Any,
    order: Any,
    limit: int,
    rates: Any,
    weights: Any,
    squares: Any,
) -> None:
    """One pass of AdaGrad (Duchi, Hazan and Singer 2011) over the texts in the given order.

    `rates [1, 4]`: learning rate, L2 pull, weight of positives, weight of negatives. `squares` are the sums of squared gradients.
    """
    words = np.empty(limit // 2 + 2, np.uint64)
    found = np.empty(2 * limit + SHAPES, np.uint64)
    table = np.empty(8 * limit + 4 * SHAPES, np.uint64)
    bias = len(weights) - 1
    for i in order:
        end = min(ends[i], starts[i] + limit)
        n = features(buffer, starts[i], end, codes, extra, bits, words, found, table)
        scale = 1.0 / np.sqrt(max(n, 1))
        total = 0.0
        for k in range(n):
            total += weights[found[k]]
        margin = weights[bias] + total * scale
        pull = (1.0 / (1.0 + np.exp(-margin)) - labels[i]) * (rates[0, 2] if labels[i] > 0.5 else rates[0, 3])
        for k in range(n):
            f = found[k]
            gradient = pull * scale + rates[0, 1] * weights[f]
            squares[f] += gradient * gradient
            weights[f] -= rates[0, 0] * gradient / np.sqrt(squares[f] + 1e-8)
        squares[bias] += pull * pull
        weights[bias] -= rates[0, 0] * pull / np.sqrt(squares[bias] + 1e-8)
