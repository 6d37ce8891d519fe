"""The four map stages of near-duplicate search, each a pure function of files.

1. `sketch_part`: a partition's bottom sketches and its sorted index keys.
2. `pair_bucket`: one range of key prefixes over all partitions; texts that share a key become candidate pairs.
3. `filter_pairs`: one range of texts; all candidate pairs whose sketches say that they may be alike.
4. `set_part`, `verify_pairs`: whole shingle sets of the texts that are left over, and their exact likeness.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umsicht.corpus.document import read_columns
from umsicht.corpus.kernels.spans import Spans, different, shingle_sets, sketches, spans_of
from umsicht.corpus.listing import Listing, open_listing

INDEXED = 16
"""Smallest hashes of a text that go into the index."""
LIKELY = 0.45
"""Pairs with a smaller estimated containment are not verified."""

PAIR = np.dtype([("later", "<u4"), ("earlier", "<u4"), ("score", "<f4"), ("jaccard", "<f4")])

STAYS, VALIDATION, GONE = 0, 1, 2
"""State of a text before the search: a candidate, a validation text (always kept, first in order), or already dropped."""


@dataclass(frozen=True)
class SpanFile:
    """Where the texts of a partition are: a Parquet table, and for paragraphs a table of spans into its texts."""

    table: str
    spans: str = ""
    sketches: tuple[str, str] | None = None
    """Files of bottom sketches and of numbers of shingles, where those are known already."""

    def load(self) -> Spans:
        """The texts."""
        column = read_columns(self.table, ["text"]).column("text")
        whole = spans_of(column)
        if not self.spans:
            return whole
        cut = np.load(self.spans)
        return Spans(
            whole.buffer,
            np.ascontiguousarray(whole.starts[cut["row"]] + cut["start"]),
            np.ascontiguousarray(whole.starts[cut["row"]] + cut["end"]),
        )


@dataclass(frozen=True)
class SketchTask:
    """One partition."""

    texts: SpanFile
    output: str
    words: int
    min_shingles: int
    row_bits: int
    """Bits that the number of a text in its partition takes."""


def sketch_part(task: SketchTask) -> dict[str, Any]:
    """Write `<output>.sketch.npy [texts, 32]`, `<output>.size.npy` (shingles a text) and `<output>.keys.npy`, sorted.

    A key is the head of a hash with the number of its text in the last `row_bits`: one integer, so that sorting is quick. Two hashes with one head
    make a pair that its sketches tell apart later.
    """
    if task.texts.sketches is None:
        found, sizes = sketches(task.texts.load(), task.words)
        np.save(f"{task.output}.sketch.npy", found)
        np.save(f"{task.output}.size.npy", sizes)
    else:
        found, sizes = (np.load(name) for name in task.texts.sketches)
        for name, kind in zip(task.texts.sketches, ("sketch", "size"), strict=True):
            Path(f"{task.output}.{kind}.npy").unlink(missing_ok=True)
            Path(f"{task.output}.{kind}.npy").hardlink_to(name)
    keys = found[:, :INDEXED]
    real = (keys != np.uint64(0xFFFFFFFFFFFFFFFF)) & (sizes >= task.min_shingles)[:, None]
    bits = np.uint64(task.row_bits)
    table = (keys >> bits << bits | np.arange(len(found), dtype=np.uint64)[:, None])[real]
    table.sort()
    np.save(f"{task.output}.keys.npy", table)
    return {"texts": len(found), "keys": len(table)}


@dataclass(frozen=True)
class BucketTask:
    """One range `first <= head <= last` over all partitions."""

    first: int
    last: int
    row_bits: int
    parts: str
    """List of the outputs of all partitions, with their numbers of texts."""
    state: str
    groups: str
    """Numbers of the documents that paragraphs belong to: two of one document are no pair. Empty for documents."""
    output: str


def rank(
    state: npt.NDArray[np.uint8], size: npt.NDArray[np.uint32], number: npt.NDArray[np.uint32]
) -> npt.NDArray[np.uint64]:
    """The keep order as one integer: validation first, then the longest, then the first read."""
    train = (state != VALIDATION).astype(np.uint64) << np.uint64(63)
    length = (np.uint64(0x7FFFFFFF) - np.minimum(size, 0x7FFFFFFF).astype(np.uint64)) << np.uint64(32)
    ranks: npt.NDArray[np.uint64] = train | length | number.astype(np.uint64)
    return ranks


def pair_bucket(task: BucketTask) -> dict[str, Any]:
    """Write the candidate pairs of one key range, `later << 32 | earlier`, sorted."""
    from umsicht.corpus.kernels.pairs import pairs_of

    state = np.load(task.state, mmap_mode="r")
    pairs = pairs_of(*_ranked(task, state))
    later, earlier = (
        (pairs >> np.uint64(32)).astype(np.uint32),
        (pairs & np.uint64(0xFFFFFFFF)).astype(np.uint32),
    )
    keep = state[later] != VALIDATION
    if task.groups:
        groups = np.load(task.groups, mmap_mode="r")
        keep &= groups[later] != groups[earlier]
    pairs = pairs[keep]
    np.save(task.output, pairs)
    return {"file": task.output, "pairs": len(pairs)}


def _ranked(
    task: BucketTask, state: npt.NDArray[np.uint8]
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Heads that several texts share and the ranks of these texts, sorted by head, then rank. Each step lets go of what the next does not need."""
    from umsicht.corpus.kernels.pairs import mark_shared

    parts = open_listing(task.parts)
    places = list(zip(parts.files, parts.offsets, strict=True))
    chosen = [_alive(task, state, name, offset) for name, offset in places]
    bits = np.uint64(task.row_bits)
    shared = _shared(chosen, task.row_bits)
    heads, order = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
    for number, (name, offset) in enumerate(places):
        keys, chosen[number] = chosen[number], np.empty(0, np.uint64)
        marked = np.zeros(len(keys), bool)
        mark_shared(keys, task.row_bits, shared, marked)
        mine = keys[marked]
        rows = mine & ((np.uint64(1) << bits) - np.uint64(1))
        numbers = (rows + np.uint64(offset)).astype(np.uint32)
        heads.append(mine >> bits)
        order.append(rank(state[numbers], np.load(f"{name}.size.npy", mmap_mode="r")[rows], numbers))
    head, ranks = np.concatenate(heads), np.concatenate(order)
    del heads, order
    inside = np.lexsort((ranks, head))
    return head[inside], ranks[inside]


def _alive(task: BucketTask, state: npt.NDArray[np.uint8], name: str, offset: int) -> npt.NDArray[np.uint64]:
    """Keys of one partition in the range, of texts that are still there."""
    table, bits = _mapped(f"{name}.keys.npy"), task.row_bits
    low = np.searchsorted(table, np.uint64(task.first << bits), "left")
    high = np.searchsorted(table, np.uint64((task.last << bits) | ((1 << bits) - 1)), "right")
    keys = table[low:high]
    rows = keys & np.uint64((1 << bits) - 1)
    alive: npt.NDArray[np.uint64] = keys[state[offset:][rows] != GONE]
    return alive


def _shared(keys: Sequence[npt.NDArray[np.uint64]], bits: int) -> npt.NDArray[np.uint64]:
    """Heads that stand in two keys at least, sorted, each once."""
    together = np.concatenate([*keys, np.empty(0, np.uint64)])
    together >>= np.uint64(bits)
    together.sort()
    again = together[1:][together[1:] == together[:-1]]
    del together
    new = np.ones(len(again), bool)
    new[1:] = again[1:] != again[:-1]
    found: npt.NDArray[np.uint64] = again[new]
    return found


def _mapped(path: str) -> npt.NDArray[Any]:
    loaded: npt.NDArray[Any] = (
        np.load(path, mmap_mode="r") if Path(path).stat().st_size > 256 else np.load(path)
    )
    return loaded


@dataclass(frozen=True)
class RangeTask:
    """All pairs whose later text is in partitions `first <= p < last`."""

    first: int
    last: int
    parts: str
    """List of the outputs of all partitions, with their numbers of texts."""
    pairs: str
    """List of the files of candidate pairs."""
    output: str
    jaccard: float
    containment: float
    state: str


def filter_pairs(task: RangeTask) -> dict[str, Any]:
    """Write the pairs that their sketches let through."""
    from umsicht.corpus.kernels.pairs import estimate

    parts = open_listing(task.parts)
    pairs = _pairs_in_range(task, parts)
    later, earlier = (
        (pairs >> np.uint64(32)).astype(np.int64),
        (pairs & np.uint64(0xFFFFFFFF)).astype(np.int64),
    )
    likely = np.zeros(len(pairs), np.float32)
    offsets = np.array(parts.offsets)
    for mine, a, b in _by_parts(later, earlier, offsets):
        out = np.empty(len(mine), np.float32)
        left, right = _mapped(f"{parts.files[a]}.sketch.npy"), _mapped(f"{parts.files[b]}.sketch.npy")
        estimate(left, later[mine] - offsets[a], right, earlier[mine] - offsets[b], out)
        likely[mine] = out
    kept = pairs[likely >= LIKELY]
    np.save(task.output, kept)
    involved = different(np.concatenate([later[likely >= LIKELY], earlier[likely >= LIKELY]]))
    np.save(f"{task.output}.involved.npy", involved.astype(np.uint32))
    return {"file": task.output, "pairs": len(pairs), "likely": len(kept)}


def _pairs_in_range(task: RangeTask, parts: Listing) -> npt.NDArray[np.uint64]:
    edges = (*parts.offsets, parts.total)
    low, end = np.uint64(edges[task.first] << 32), edges[task.last]
    found = []
    for name in open_listing(task.pairs).files:
        pairs = _mapped(name)
        first, last = np.searchsorted(pairs, [low, np.uint64(end << 32)])
        found.append(np.array(pairs[first:last]))
    return different(np.concatenate(found)) if found else np.empty(0, np.uint64)


def _by_parts(
    later: npt.NDArray[np.int64], earlier: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64]
) -> Iterator[tuple[npt.NDArray[np.int64], int, int]]:
    """Places of the pairs that lie between the same two partitions, and those partitions."""
    both = (np.searchsorted(offsets, later, "right") - 1) << 32 | (
        np.searchsorted(offsets, earlier, "right") - 1
    )
    order = np.argsort(both, kind="stable")
    keys, first = np.unique(both[order], return_index=True)
    last = [*first[1:].tolist(), len(order)]
    for key, start, end in zip(keys.tolist(), first.tolist(), last[: len(keys)], strict=True):
        yield order[start:end], key >> 32, key & 0xFFFFFFFF


@dataclass(frozen=True)
class SetTask:
    """One partition."""

    texts: SpanFile
    offset: int
    involved: str
    """List of the files of texts that pairs need."""
    output: str
    words: int


def set_part(task: SetTask) -> dict[str, Any]:
    """Write the whole shingle sets of the texts of one partition that some pair needs."""
    size = len(np.load(f"{task.output}.size.npy", mmap_mode="r"))
    wanted = np.zeros(size, bool)
    for name in open_listing(task.involved).files:
        numbers = _mapped(name)
        first, last = np.searchsorted(numbers, [task.offset, task.offset + size])
        wanted[numbers[first:last] - task.offset] = True
    rows = np.flatnonzero(wanted)
    if len(rows):
        flat, offsets = shingle_sets(task.texts.load().take(rows), task.words)
    else:
        flat, offsets = np.empty(0, np.uint64), np.zeros(1, np.int64)
    np.save(f"{task.output}.sets.npy", flat)
    np.save(f"{task.output}.set-rows.npy", rows.astype(np.uint32))
    np.save(f"{task.output}.set-offsets.npy", offsets)
    return {"texts": len(rows)}


def verify_pairs(task: RangeTask) -> dict[str, Any]:
    """Write the pairs that are truly alike, with their score, sorted by the keep order of the later text."""
    from umsicht.corpus.kernels.pairs import measure

    pairs = np.load(task.output.replace(".verified", ".likely"))
    later, earlier = (
        (pairs >> np.uint64(32)).astype(np.int64),
        (pairs & np.uint64(0xFFFFFFFF)).astype(np.int64),
    )
    parts = open_listing(task.parts)
    offsets = np.array(parts.offsets)
    scores = np.zeros((len(pairs), 3), np.float32)
    for mine, a, b in _by_parts(later, earlier, offsets):
        left, left_starts, left_ends = _sets(parts.files[a], later[mine] - offsets[a])
        right, right_starts, right_ends = _sets(parts.files[b], earlier[mine] - offsets[b])
        out = np.empty((len(mine), 3), np.float32)
        measure(left, left_starts, left_ends, right, right_starts, right_ends, out)
        scores[mine] = out
    state = np.load(task.state, mmap_mode="r")
    inside = np.where(state[earlier] == VALIDATION, scores[:, 1:].max(1, initial=0), scores[:, 1])
    alike = (scores[:, 0] >= task.jaccard) | (inside >= task.containment)
    found = np.empty(int(alike.sum()), PAIR)
    found["later"], found["earlier"] = later[alike], earlier[alike]
    found["score"] = np.maximum(scores[alike, 0], inside[alike])
    found["jaccard"] = scores[alike, 0]
    np.save(task.output, found)
    return {"file": task.output, "verified": len(found)}


def _sets(
    name: str, rows: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    kept = np.load(f"{name}.set-rows.npy")
    offsets = np.load(f"{name}.set-offsets.npy")
    at = np.searchsorted(kept, rows.astype(np.uint32))
    return (
        _mapped(f"{name}.sets.npy"),
        np.ascontiguousarray(offsets[at]),
        np.ascontiguousarray(offsets[at + 1]),
    )
