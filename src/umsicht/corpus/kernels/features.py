"""Hashed features of a text for the light classifiers: words, pairs of neighbours, and the shapes that words hide (digits, capitals, signs)."""

from __future__ import annotations

from typing import Any

import numpy as np

from umsicht.corpus.kernels.jit import inline, int64, kernel, readable, void, writable
from umsicht.corpus.kernels.shingles import EDGES
from umsicht.corpus.kernels.words import BYTES, CODES, HASHES, hash_words, mix

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


CAPITAL, DIGIT, LETTER, SHOUT, PERCENT = 0, 13, 26, 39, 52
"""Shifts of five counters in one word: a byte adds to several of them with one addition. None runs over in `MOST_BYTES`."""
MOST_BYTES = 4_000


def _bit(b: int) -> int:
    value = int(65 <= b <= 90) << CAPITAL | int(48 <= b <= 57) << DIGIT
    return (
        value
        | int(65 <= b <= 90 or 97 <= b <= 122) << LETTER
        | int(b == 33) << SHOUT
        | int(b == 37) << PERCENT
    )


COUNTS = np.array([_bit(b) for b in range(256)], np.uint64)
_LOOK, _WORD = 1, 2
WAYS = np.zeros(256, np.uint8)
"""Bytes that want a closer look (digits, signs of money, colons), and those that words are made of."""
WAYS[[*b"0123456789$:", 0xA3, 0xAC]] |= _LOOK
WAYS[[*range(48, 58), *range(65, 91), *range(97, 123)]] |= _WORD


@kernel(int64(BYTES, int64, int64, writable("uint64"), int64))
def _shapes(buffer: Any, start: int, end: int, out: Any, n: int) -> int:
    """Shares of capitals, digits, signs, and the shapes of words with digits in them. At most `MOST_BYTES` bytes."""
    total = np.uint64(0)
    money = links = 0
    i: Any = start
    while i < end:
        b = buffer[i]
        total += COUNTS[b]
        if WAYS[b] & 1:
            if b >= 48 and b <= 57:
                first = i
                while first > start and WAYS[buffer[first - 1]] & 2:
                    first -= 1
                figures = 1
                i += 1
                while i < end and WAYS[buffer[i]] & 2:
                    b = buffer[i]
                    total += COUNTS[b]
                    figures += b <= 57
                    i += 1
                if n < len(out):
                    size = i - first
                    out[n] = mix(np.uint64(1_000_003) + np.uint64(min(size, 12) * 2 + (figures != size)))
                    n += 1
                continue
            money += b == 36
            if b == 0xA3 and i > start and buffer[i - 1] == 0xC2:
                money += 1
            if b == 0xAC and i > start + 1 and buffer[i - 1] == 0x82 and buffer[i - 2] == 0xE2:
                money += 1
            links += b == 58 and i + 2 < end and buffer[i + 1] == 47 and buffer[i + 2] == 47
        i += 1
    capitals: Any = np.int64(total & np.uint64(0x1FFF))
    digits: Any = np.int64((total >> np.uint64(13)) & np.uint64(0x1FFF))
    letters: Any = np.int64((total >> np.uint64(26)) & np.uint64(0x1FFF))
    shouts: Any = np.int64((total >> np.uint64(39)) & np.uint64(0x1FFF))
    percent: Any = np.int64(total >> np.uint64(52))
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


@kernel(int64(BYTES, int64, int64, HASHES, int64, HASHES, writable("uint32")))
def numbers(buffer: Any, start: int, end: int, words: Any, bits: int, shapes: Any, out: Any) -> int:
    """Feature numbers (below 2^bits) of one text, each as often as it stands there; its hashed words are given.

    Words and pairs of neighbours first, then shapes. Returns how many; `shapes` has as much room as `out`, which bounds their number.
    """
    shift = np.uint64(64 - bits)
    n = np.uint64(0)
    before = np.uint64(0)
    for i in range(np.uint64(len(words))):
        word = words[i]
        out[n] = np.uint32(mix(word) >> shift)
        n += np.uint64(1)
        out[n] = np.uint32(mix(before * PAIR + word) >> shift)
        n += np.uint64(i > np.uint64(0))
        before = word
    count: Any = np.int64(n)
    found = _shapes(buffer, start, end, shapes[count:], 0)
    for i in range(found):
        out[count + i] = np.uint32(shapes[count + i] >> shift)
    return count + found  # type: ignore[no-any-return]  # an int64 once compiled


@kernel(int64(BYTES, int64, int64, HASHES, int64, HASHES, writable("uint32"), HASHES))
def features(
    buffer: Any, start: int, end: int, words: Any, bits: int, shapes: Any, out: Any, seen: Any
) -> int:
    """The different ones of these `numbers`, in the order of their first appearance. Returns how many.

    `seen` has a bit for every number, all of them unset before and after: it stays in the nearest cache, and asking it needs no branch.
    """
    one = np.uint64(1)
    different = np.uint64(0)
    for k in range(np.uint64(numbers(buffer, start, end, words, bits, shapes, out))):
        number = out[k]
        place, bit = np.uint64(number) >> np.uint64(6), one << (np.uint64(number) & np.uint64(63))
        known = seen[place]
        seen[place] = known | bit
        out[different] = number
        different += np.uint64((known & bit) == np.uint64(0))
    for k in range(different):
        seen[np.uint64(out[k]) >> np.uint64(6)] = np.uint64(0)
    return np.int64(different)  # type: ignore[return-value]  # an int64 once compiled


@kernel(
    void(
        BYTES,
        EDGES,
        EDGES,
        HASHES,
        EDGES,
        CODES,
        CODES,
        int64,
        readable("float32"),
        int64,
        writable("float32"),
    )
)
def score_many(
    buffer: Any,
    starts: Any,
    ends: Any,
    words: Any,
    offsets: Any,
    codes: Any,
    extra: Any,
    bits: int,
    weights: Any,
    limit: int,
    out: Any,
) -> None:
    """Log-odds of every text: bias (the last weight) plus the sum of its features' weights over the root of their number.

    `words` are the hashed words of all texts, cut by `offsets`. Only the first `limit` bytes of a text are looked at.
    """
    few = np.empty(limit // 2 + 2, np.uint64)
    shapes = np.empty(2 * limit + SHAPES, np.uint64)
    found = np.empty(2 * limit + SHAPES, np.uint32)
    seen = np.zeros((1 << bits) // 64 + 1, np.uint64)
    for i in range(len(starts)):
        mine = words[offsets[i] : offsets[i + 1]]
        end = ends[i]
        if end > starts[i] + limit:
            end = starts[i] + limit
            mine = few[: hash_words(buffer, starts[i], end, codes, extra, few)]
        n = features(buffer, starts[i], end, mine, bits, shapes, found, seen)
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
    shapes = np.empty(2 * limit + SHAPES, np.uint64)
    found = np.empty(2 * limit + SHAPES, np.uint32)
    seen = np.zeros((1 << bits) // 64 + 1, np.uint64)
    bias = len(weights) - 1
    for i in order:
        end = min(ends[i], starts[i] + limit)
        mine = words[: hash_words(buffer, starts[i], end, codes, extra, words)]
        n = features(buffer, starts[i], end, mine, bits, shapes, found, seen)
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
