"""Validation documents, chosen by the hash of their text in each slice before anything else happens to them.

The choice depends on the text and the seed alone: equal texts go to the same side, and more text in a slice never moves a document that a smaller
target had already chosen behind one that it had not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from umsicht.corpus.context import Part
from umsicht.corpus.index import Rows, open_rows
from umsicht.recipe.corpus import ValidationSplitSettings

OVERSAMPLE = 6.0


@dataclass(frozen=True)
class SliceSize:
    """What one slice has before duplicates go."""

    documents: int
    bytes: int


def keyed(lo: npt.NDArray[np.uint64], seed: int) -> npt.NDArray[np.uint64]:
    """A seeded order of hashes: splitmix64's finaliser over the lower half of the hash (Steele, Lea and Flood 2014)."""
    mixed = lo + np.uint64((seed * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) & 0xFFFFFFFFFFFFFFFF)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def slice_sizes(parts: Sequence[Part]) -> dict[str, SliceSize]:
    """Documents and bytes of every slice."""
    sizes: dict[str, list[int]] = {}
    for part in parts:
        rows = open_rows(part.index)
        count = np.bincount(rows["slice"], minlength=len(part.slices))
        size = np.bincount(rows["slice"], weights=rows["bytes"], minlength=len(part.slices))
        for name, documents, total in zip(part.slices, count, size, strict=True):
            known = sizes.setdefault(name, [0, 0])
            known[0] += int(documents)
            known[1] += int(total)
    return {name: SliceSize(*values) for name, values in sorted(sizes.items())}


def target_bytes(size: SliceSize, settings: ValidationSplitSettings) -> int:
    """How much of a slice is set aside."""
    if settings.share == 0:
        return 0
    wanted = max(size.bytes * settings.share, settings.min_bytes)
    return int(min(wanted, settings.max_bytes, size.bytes * settings.largest_share))


def choose_validation(parts: Sequence[Part], settings: ValidationSplitSettings) -> npt.NDArray[np.uint64]:
    """The chosen hashes `[documents, 2]` as (hi, lo): slice by slice, each in its seeded order.

    Documents are taken in that order as long as they fit under the target; one that does not fit is passed over.
    """
    sizes = slice_sizes(parts)
    candidates: dict[str, list[Rows]] = {name: [] for name in sizes}
    for part in parts:
        rows = open_rows(part.index)
        order = keyed(rows["lo"], settings.seed)
        for number, name in enumerate(part.slices):
            share = min(1.0, OVERSAMPLE * target_bytes(sizes[name], settings) / max(sizes[name].bytes, 1))
            few = sizes[name].documents <= 1_000
            limit = np.uint64(0xFFFFFFFFFFFFFFFF if few or share >= 1 else int(share * 2.0**64))
            candidates[name].append(np.array(rows[(rows["slice"] == number) & (order <= limit)]))
    chosen = [
        _fill(np.concatenate(found), target_bytes(sizes[name], settings), settings.seed)
        for name, found in candidates.items()
        if found
    ]
    return np.concatenate([np.empty((0, 2), np.uint64), *chosen])


def _fill(rows: Rows, target: int, seed: int) -> npt.NDArray[np.uint64]:
    chosen: list[tuple[int, int]] = []
    _, first = np.unique(rows["lo"], return_index=True)
    rows = rows[first]
    left = target
    for row in rows[np.argsort(keyed(rows["lo"], seed), kind="stable")]:
        if row["bytes"] <= left:
            chosen.append((int(row["hi"]), int(row["lo"])))
            left -= int(row["bytes"])
        if left < target * 0.02:
            break
    return np.array(chosen, np.uint64).reshape(-1, 2)


def is_chosen(rows: Rows, chosen: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Which rows of a partition are validation documents. A text chosen in one slice is validation in every slice."""
    return np.isin(rows["lo"], chosen[:, 1]) & np.isin(rows["hi"], chosen[:, 0])
