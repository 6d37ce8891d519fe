"""The keep rule: of texts that are alike one stays, and no chain of likeness takes a text that is alike to none that stays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from umsicht.corpus.listing import Listing, open_listing
from umsicht.corpus.near.tasks import PAIR, rank


@dataclass(frozen=True)
class DecideTask:
    """All verified pairs, and what the keep order asks of their texts."""

    pairs: str
    """List of the files of verified pairs."""
    parts: str
    """List of the outputs of all partitions, with their numbers of texts."""
    state: str
    output: str


def decide(task: DecideTask) -> dict[str, Any]:
    """Write the drops by the keep rule: in the keep order, a text goes if it is alike to one that stays; the most alike of those is named."""
    from umsicht.corpus.kernels.pairs import resolve

    parts = open_listing(task.parts)
    pairs = np.concatenate([np.empty(0, PAIR), *(np.load(name) for name in open_listing(task.pairs).files)])
    later = pairs["later"]
    state = np.load(task.state, mmap_mode="r")[later]
    order = np.lexsort((pairs["earlier"], rank(state, _sizes(later, parts), later)))
    pairs = pairs[order]
    chosen = np.empty(len(pairs), np.int64)
    gone = np.zeros(parts.total, np.uint8)
    count = resolve(
        np.ascontiguousarray(pairs["later"]),
        np.ascontiguousarray(pairs["earlier"]),
        np.ascontiguousarray(pairs["score"]),
        gone,
        chosen,
    )
    drops = pairs[chosen[:count]]
    drops.sort(order="later")
    np.save(task.output, drops)
    return {"file": task.output, "verified": len(pairs)}


def _sizes(numbers: npt.NDArray[np.uint32], parts: Listing) -> npt.NDArray[np.uint32]:
    """Shingles of some texts, out of the files of their partitions."""
    offsets = np.array((*parts.offsets, parts.total))
    part = np.searchsorted(offsets, numbers, "right") - 1
    sizes = np.empty(len(numbers), np.uint32)
    for p in np.unique(part):
        mine = part == p
        sizes[mine] = np.load(f"{parts.files[p]}.size.npy", mmap_mode="r")[numbers[mine] - offsets[p]]
    return sizes
