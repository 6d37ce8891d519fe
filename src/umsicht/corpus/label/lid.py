"""Reading a quantised fastText classifier (`.ftz`, version 12) into arrays that our kernel scores with."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umsicht.corpus.kernels.lid import DIMENSION, score_nodes, walk_tree

MAGIC, VERSION = 793_712_314, 12
HIERARCHICAL = 1
CENTROIDS = 256
END_OF_LINE = b"</s>"
_MASK = 0xFFFFFFFFFFFFFFFF


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, layout: str) -> tuple[Any, ...]:
        found = struct.unpack_from(f"<{layout}", self.data, self.at)
        self.at += struct.calcsize(f"<{layout}")
        return found

    def array(self, kind: str, n: int) -> npt.NDArray[Any]:
        found = np.frombuffer(self.data, kind, n, self.at)
        self.at += found.nbytes
        return found

    def word(self) -> bytes:
        end = self.data.index(b"\0", self.at)
        found = self.data[self.at : end]
        self.at = end + 1
        return found


@dataclass(frozen=True)
class Lid:
    """A classifier with hierarchical softmax."""

    labels: tuple[str, ...]
    sizes: npt.NDArray[np.int32]
    """Least n, greatest n, buckets, row of the end of a line (-1: none)."""
    ngrams: tuple[npt.NDArray[np.uint64], npt.NDArray[np.int32]]
    """One bit for every bucket that has a vector, and the row of the first of each 64 buckets."""
    words: tuple[npt.NDArray[np.uint64], npt.NDArray[np.int32]]
    vectors: npt.NDArray[np.float32]
    output: npt.NDArray[np.float32]
    """Vectors of the inner nodes, the first number of all of them first."""
    children: npt.NDArray[np.int32]

    def scores(
        self, data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float32]:
        """Probabilities `[texts, labels]` of texts with single spaces, from `starts` to `ends` in `data`."""
        nodes = np.empty((len(starts), len(self.labels) - 1), np.float32)
        score_nodes(
            data,
            starts,
            ends,
            self.sizes,
            *self.ngrams,
            *self.words,
            self.vectors,
            self.output,
            nodes,
        )
        with np.errstate(over="ignore"):
            np.exp(np.negative(nodes, out=nodes), out=nodes)
        nodes += 1
        np.reciprocal(nodes, out=nodes)
        out = np.empty((len(nodes), len(self.labels)), np.float32)
        walk_tree(nodes, self.children, out)
        return out

    @classmethod
    def load(cls, path: Path) -> Lid:
        """Read a model. Raises ValueError for one of another kind."""
        reader = _Reader(path.read_bytes())
        magic, version = reader.take("ii")
        dimension, _, _, _, _, _, loss, _, buckets, least, greatest, _ = reader.take("12i")
        reader.take("d")
        if (magic, version, loss) != (MAGIC, VERSION, HIERARCHICAL):
            raise ValueError(f"{path.name}: no fastText model of version {VERSION} with hierarchical softmax")
        if dimension != DIMENSION:
            raise ValueError(f"{path.name}: vectors of {dimension} numbers instead of {DIMENSION}")
        size, n_words, n_labels, _, pruned = reader.take("iiiqq")
        words, labels, counts = [], [], []
        for _ in range(size):
            entry = reader.word()
            count, kind = reader.take("qb")
            if kind == 0:
                words.append(entry)
            else:
                labels.append(entry.decode().removeprefix("__label__"))
                counts.append(count)
        pairs = reader.array("<i4", 2 * max(pruned, 0)).reshape(-1, 2)
        (quantised,) = reader.take("?")
        if not quantised or pruned <= 0:
            raise ValueError(f"{path.name}: not quantised")
        vectors = _quantised(reader, dimension)
        order = np.argsort(pairs[:, 0], kind="stable")
        vectors[n_words:] = vectors[n_words:][pairs[order, 1]]
        (quantised,) = reader.take("?")
        rows, columns = (0, 0) if quantised else reader.take("qq")
        if rows != n_labels or columns != dimension:
            raise ValueError(f"{path.name}: its output matrix has another shape")
        output = reader.array("<f4", rows * columns).reshape(rows, columns)[:-1].T.astype(np.float32)
        end = words.index(END_OF_LINE) if END_OF_LINE in words else -1
        return cls(
            tuple(labels),
            np.array([least, greatest, buckets, end], np.int32),
            _marks(pairs[order, 0], n_words, buckets),
            word_table(words, range(len(words))),
            vectors.reshape(-1),
            np.ascontiguousarray(output).reshape(-1),
            _tree(counts),
        )


def _quantised(reader: _Reader, dimension: int) -> npt.NDArray[np.float32]:
    """The vectors behind product-quantised codes (Jégou, Douze and Schmid 2011)."""
    with_norm, rows, _, size = reader.take("?qqi")
    codes = reader.array("u1", size).reshape(rows, -1)
    vectors = _decoded(reader, codes, dimension)
    if with_norm:
        norms = reader.array("u1", rows).reshape(rows, 1)
        vectors = vectors * _decoded(reader, norms, 1)
    return np.ascontiguousarray(vectors, np.float32)


def _decoded(reader: _Reader, codes: npt.NDArray[np.uint8], dimension: int) -> npt.NDArray[np.float32]:
    _, parts, width, last = reader.take("4i")
    centroids = reader.array("<f4", dimension * CENTROIDS)
    vectors = np.empty((len(codes), dimension), np.float32)
    for part in range(parts):
        mine = last if part == parts - 1 else width
        first = part * CENTROIDS * width
        known = centroids[first : first + CENTROIDS * mine].reshape(CENTROIDS, mine)
        vectors[:, part * width : part * width + mine] = known[codes[:, part]]
    return vectors


def _marks(
    keys: npt.NDArray[np.int32], first: int, buckets: int
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int32]]:
    """Marks of sorted buckets, and the rows at which each 64 of them begin."""
    wide = keys.astype(np.uint64)
    marks = np.zeros(buckets // 64 + 1, np.uint64)
    np.bitwise_or.at(marks, (wide >> np.uint64(6)).astype(np.int64), np.uint64(1) << (wide & np.uint64(63)))
    return marks, (first + np.searchsorted(keys, 64 * np.arange(len(marks)))).astype(np.int32)


def word_table(
    words: Sequence[bytes], numbers: Sequence[int]
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int32]]:
    """An open-addressing table from the hashes of words to numbers; -1 marks an empty place."""
    size = 1 << (4 * len(words)).bit_length()
    places, values = np.zeros(size, np.uint64), np.full(size, -1, np.int32)
    for word, number in zip(words, numbers, strict=True):
        value = 0xCBF29CE484222325
        for b in word:
            value = ((value ^ b) * 0x100000001B3) & _MASK
        at = value & (size - 1)
        while values[at] != -1:
            at = (at + 1) & (size - 1)
        places[at], values[at] = value, number
    return places, values


def _tree(counts: list[int]) -> npt.NDArray[np.int32]:
    """Children of the inner nodes of the Huffman tree over the labels, which come by falling count."""
    n = len(counts)
    weight = [*counts, *[10**15] * (n - 1)]
    children = np.empty(2 * (n - 1), np.int32)
    leaf, node = n - 1, n
    for inner in range(n, 2 * n - 1):
        pair = []
        for _ in range(2):
            if leaf >= 0 and weight[leaf] < weight[node]:
                pair.append(leaf)
                leaf -= 1
            else:
                pair.append(node)
                node += 1
        weight[inner] = weight[pair[0]] + weight[pair[1]]
        children[2 * (inner - n) : 2 * (inner - n) + 2] = pair
    return children
