"""A keyed permutation of the integers below `n`, computed one index at a time.

The order of the data is arithmetic: nothing is shuffled in memory and nothing has to be stored to resume. A balanced
Feistel network (Luby and Rackoff 1988, "How to construct pseudorandom permutations") permutes the next power of four
above `n`; cycle walking (Black and Rogaway 2002, "Ciphers with arbitrary finite domains", §3) brings it back to exactly
`n` values. A linear congruential order is not good enough: neighbouring steps then see correlated rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
_Words = NDArray[np.uint64]

_ROUNDS = 8
# Below this size a Feistel network has so few bits a side that its permutations are visibly not uniform.
_SORTED_BELOW = 1024
# Up to this size the whole order is computed at the first question and kept: 64 bits a row, and a step costs a look-up.
_TABLE_BELOW = 1 << 17
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mix64(words: _Words) -> _Words:
    """Scramble 64-bit words: the finaliser of splitmix64 (Steele, Lea and Flood 2014, figure 16), a bijection.

    `words` has any shape; the answer has the same shape.
    """
    with np.errstate(over="ignore"):
        words = words + _GOLDEN
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def derive_key(*parts: int) -> int:
    """Fold integers (seed, group, epoch, …) into one 64-bit key; the order of the parts matters."""
    key = np.zeros(1, dtype=np.uint64)
    for part in parts:
        key = mix64(key ^ np.uint64(part & 0xFFFFFFFFFFFFFFFF))
    return int(key[0])


class Permutation:
    """A bijection of `range(n)` chosen by `key`; equal keys give equal orders on every machine.

    Raises ValueError where `n` is not positive and IndexError for an index outside `range(n)`.
    """

    def __init__(self, n: int, key: int) -> None:
        if n < 1:
            raise ValueError(f"a permutation needs at least one element, not {n}")
        self.n = n
        self.key = key
        self._table = _by_sorting(n, key) if n < _SORTED_BELOW else None
        self._half_bits = np.uint64(max(1, ((n - 1).bit_length() + 1) // 2))
        self._half_mask = np.uint64((1 << int(self._half_bits)) - 1)
        self._round_keys = [np.uint64(derive_key(key, number)) for number in range(_ROUNDS)]

    def __call__(self, indices: Indices | int) -> Indices:
        """Where each index goes; `indices` and the answer are int64 of the same shape."""
        wanted = np.atleast_1d(np.asarray(indices, dtype=np.int64))
        if wanted.size and (int(wanted.min()) < 0 or int(wanted.max()) >= self.n):
            raise IndexError(f"index outside 0..{self.n - 1}")
        if self._table is None and self.n < _TABLE_BELOW:
            self._table = self._walk(np.arange(self.n, dtype=np.uint64)).astype(np.int64)
        if self._table is not None:
            return self._table[wanted]
        return self._walk(wanted.astype(np.uint64)).astype(np.int64)

    def one(self, index: int) -> int:
        """Where a single index goes."""
        return int(self(index)[0])

    def all(self) -> Indices:
        """The whole order, `[n]` int64."""
        return self(np.arange(self.n, dtype=np.int64))

    def _walk(self, words: _Words) -> _Words:
        words = self._feistel(words)
        outside = np.flatnonzero(words >= np.uint64(self.n))
        while outside.size:
            words[outside] = self._feistel(words[outside])
            outside = outside[words[outside] >= np.uint64(self.n)]
        return words

    def _feistel(self, words: _Words) -> _Words:
        left, right = words >> self._half_bits, words & self._half_mask
        for round_key in self._round_keys:
            left, right = right, left ^ (mix64(right ^ round_key) & self._half_mask)
        return (left << self._half_bits) | right


def _by_sorting(n: int, key: int) -> Indices:
    scores = mix64(np.arange(n, dtype=np.uint64) ^ np.uint64(key))
    return np.argsort(mix64(scores), kind="stable").astype(np.int64)
