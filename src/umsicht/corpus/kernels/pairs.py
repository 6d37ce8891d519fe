"""From sorted sketch keys to candidate pairs, and from candidate pairs to measured likeness."""

from __future__ import annotations

from typing import Any

import numpy as np

from umsicht.corpus.kernels.jit import boolean, int64, kernel, readable, void, writable
from umsicht.corpus.kernels.shingles import EDGES, SET, count_common
from umsicht.corpus.kernels.spans import different

ALL_PAIRS = 16
"""Runs of equal keys up to this length give all their pairs."""
PIVOTS = 6
NEIGHBOURS = 6
"""In longer runs every text meets the first few of the run and those just before it (of nearly its own size)."""


@kernel(int64(SET, SET, writable("uint64"), boolean))
def _pairs(keys: Any, order: Any, out: Any, write: bool) -> int:
    n = 0
    first = 0
    total = len(keys)
    while first < total:
        last = first + 1
        while last < total and keys[last] == keys[first]:
            last += 1
        for j in range(first + 1, last):
            near = first if last - first <= ALL_PAIRS else max(j - NEIGHBOURS, first)
            for i in range(first, j):
                if i < near and i >= first + PIVOTS:
                    continue
                if write:
                    out[n] = ((order[j] & np.uint64(0xFFFFFFFF)) << np.uint64(32)) | (
                        order[i] & np.uint64(0xFFFFFFFF)
                    )
                n += 1
        first = last
    return n


@kernel(void(SET, int64, SET, writable("bool_")))
def mark_shared(keys: Any, bits: int, heads: Any, out: Any) -> None:
    """Which of the sorted `keys` have a head (the key without its last `bits`) among the sorted `heads`."""
    shift = np.uint64(bits)
    k = 0
    for i in range(len(keys)):
        head = keys[i] >> shift
        while k < len(heads) and heads[k] < head:
            k += 1
        out[i] = k < len(heads) and heads[k] == head


def pairs_of(keys: Any, order: Any) -> Any:
    """Candidate pairs of equal keys as `later << 32 | earlier`, each once, sorted.

    `order` ranks texts: the lower the earlier it is kept; its low 32 bits are the text's number. Both arrays are sorted by key, then order.
    """
    count = _pairs(keys, order, np.empty(0, np.uint64), False)
    out = np.empty(count, np.uint64)
    _pairs(keys, order, out, True)
    return different(out)


@kernel(void(readable("uint64", 2), EDGES, readable("uint64", 2), EDGES, writable("float32")))
def estimate(left: Any, left_rows: Any, right: Any, right_rows: Any, out: Any) -> None:
    """Estimated containment of the smaller text in the larger one, from a row of bottom sketches on either side.

    Both sketches are complete up to the smaller of their largest hashes; below it shared and own hashes are counted. Fewer than four counted
    hashes say too little, and the pair passes.
    """
    size = left.shape[1]
    full = np.uint64(0xFFFFFFFFFFFFFFFF)
    for row in range(len(left_rows)):
        one, other = left[left_rows[row]], right[right_rows[row]]
        limit = min(one[size - 1], other[size - 1])
        i, j, common = 0, 0, 0
        while i < size and j < size:
            a, b = one[i], other[j]
            if a > limit or b > limit or a == full or b == full:
                break
            if a == b:
                common += 1
                i += 1
                j += 1
            elif a < b:
                i += 1
            else:
                j += 1
        while i < size and one[i] <= limit and one[i] != full:
            i += 1
        while j < size and other[j] <= limit and other[j] != full:
            j += 1
        smaller = min(i, j)
        out[row] = 1.0 if smaller < 4 and common > 0 else common / max(smaller, 1)


@kernel(void(SET, EDGES, EDGES, SET, EDGES, EDGES, writable("float32", 2)))
def measure(
    left: Any, left_starts: Any, left_ends: Any, right: Any, right_starts: Any, right_ends: Any, out: Any
) -> None:
    """For every pair of sets: Jaccard, containment of the left in the right, containment of the right in the left (`out [pairs, 3]`)."""
    for row in range(len(left_starts)):
        a = left[left_starts[row] : left_ends[row]]
        b = right[right_starts[row] : right_ends[row]]
        common = count_common(a, b)
        out[row, 0] = common / max(len(a) + len(b) - common, 1)
        out[row, 1] = common / max(len(a), 1)
        out[row, 2] = common / max(len(b), 1)


@kernel(
    int64(readable("uint32"), readable("uint32"), readable("float32"), writable("uint8"), writable("int64"))
)
def resolve(later: Any, earlier: Any, score: Any, gone: Any, chosen: Any) -> int:
    """Greedy and without chains: pairs come sorted by the order of the later text; it goes only for a text that stays.

    `gone` (one byte a text) is updated; `chosen [pairs]` gets the numbers of the pairs that decided. Returns how many.
    """
    n = 0
    first = 0
    while first < len(later):
        last = first
        best = -1
        while last < len(later) and later[last] == later[first]:
            if gone[earlier[last]] == 0 and (best < 0 or score[last] > score[best]):
                best = last
            last += 1
        if best >= 0:
            gone[later[first]] = 1
            chosen[n] = best
            n += 1
        first = last
    return n
