"""Small validation slices are pooled: a score over a few kilobytes says more about chance than about the model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

MIN_SLICE_BYTES = 50_000
REST = "small.other"


def pools(sizes: Mapping[str, int], minimum: int = MIN_SLICE_BYTES) -> dict[str, str]:
    """Name of a slice (`domain.language`) → name of its pool, for slices below `minimum` bytes.

    The small slices of a domain become `<domain>.other` where that reaches the minimum, else `small.other`.
    """
    small = [name for name, size in sizes.items() if size < minimum]
    by_domain: dict[str, int] = {}
    for name in small:
        domain = name.rpartition(".")[0]
        by_domain[domain] = by_domain.get(domain, 0) + sizes[name]
    found = {}
    for name in small:
        domain = name.rpartition(".")[0]
        found[name] = f"{domain}.other" if by_domain[domain] >= minimum else REST
    return found


def rename(folder: Path, renumbered: Mapping[int, int]) -> None:
    """Give the documents of a written split their new slice numbers."""
    for path in sorted(folder.glob("*.slices.npy")):
        before = np.load(path)
        after = before.copy()
        for old, new in renumbered.items():
            after[before == old] = new
        np.save(path, after)
