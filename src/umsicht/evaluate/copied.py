"""How much of an output stands word for word in the training text.

The outputs are few and the training text is long, so the hashes of the outputs' n-grams are kept and the training tokens
are streamed past them once; no index of the corpus is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from umsicht.findings import Finding

N = 12
"""Tokens: shorter runs are idioms, which anybody may use."""
LONG_SHARE = 0.5
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Copied:
    """`share`: tokens of the output that lie in an n-gram of the training text; `longest`: the longest run of such tokens."""

    share: float
    longest: int


def gram_hashes(ids: npt.NDArray[np.integer], n: int = N) -> npt.NDArray[np.uint64]:
    """A 64-bit hash of each n-gram, `[len - n + 1]`; collisions have a chance of about pairs / 2^64."""
    if len(ids) < n:
        return np.zeros(0, dtype=np.uint64)
    values = ids.astype(np.uint64)
    result = np.zeros(len(ids) - n + 1, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for i in range(n):
            result = (result + values[i : len(values) - n + 1 + i] + np.uint64(1)) * _MULTIPLIER
            result ^= result >> np.uint64(29)
    return result


def measure(
    outputs: Sequence[Sequence[int]], training: Iterable[npt.NDArray[np.integer]], n: int = N
) -> list[Copied]:
    """For each output (token ids) what part of it the training documents (token ids) contain."""
    own = [gram_hashes(np.asarray(ids, dtype=np.int64), n) for ids in outputs]
    wanted = np.unique(np.concatenate(own)) if own else np.zeros(0, dtype=np.uint64)
    seen = np.zeros(wanted.size, dtype=bool)
    if wanted.size:
        for block in _blocks(training):
            hashes = gram_hashes(block, n)
            at = np.minimum(np.searchsorted(wanted, hashes), wanted.size - 1)
            seen[at[wanted[at] == hashes]] = True
    return [_cover(len(ids), hashes, wanted, seen, n) for ids, hashes in zip(outputs, own, strict=True)]


def _blocks(training: Iterable[npt.NDArray[np.integer]]) -> Iterable[npt.NDArray[np.int64]]:
    """Documents joined into blocks, so that small ones do not cost a call each; -1 between them stops n-grams across borders."""
    border = np.array([-1], dtype=np.int64)
    waiting: list[npt.NDArray[np.int64]] = []
    size = 0
    for document in training:
        waiting += [np.asarray(document, dtype=np.int64), border]
        size += len(document) + 1
        if size >= _CHUNK:
            yield np.concatenate(waiting)
            waiting, size = [], 0
    if waiting:
        yield np.concatenate(waiting)


def _cover(
    length: int,
    hashes: npt.NDArray[np.uint64],
    wanted: npt.NDArray[np.uint64],
    seen: npt.NDArray[np.bool_],
    n: int,
) -> Copied:
    covered = np.zeros(length, dtype=bool)
    for start in np.flatnonzero(seen[np.searchsorted(wanted, hashes)]) if hashes.size else ():
        covered[start : start + n] = True
    longest = run = 0
    for is_copied in covered:
        run = run + 1 if is_copied else 0
        longest = max(longest, run)
    return Copied(float(covered.mean()) if length else 0.0, longest)


def judge(copied: Sequence[Copied], texts: Sequence[str], step: int) -> list[Finding]:
    """A finding where at least a quarter of the outputs are mostly copied."""
    mostly = [i for i, c in enumerate(copied) if c.share > LONG_SHARE]
    if not copied or len(mostly) < max(2, len(copied) / 4):
        return []
    worst = max(mostly, key=lambda i: copied[i].longest)
    numbers = {
        "step": step,
        "outputs": len(copied),
        "copied": len(mostly),
        "longest": copied[worst].longest,
        "n": N,
    }
    return [Finding("SAMPLE/copied", "warn", "evaluate", "", numbers, (texts[worst][:160],))]
