"""Lists of files that tasks look across, kept in files of their own.

A task that carried the names of all partitions would grow with their number, and all tasks together with its square: a scheduler holds them, and
sends each over the wire.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import orjson

from umsicht.record import atomic_json


@dataclass(frozen=True)
class Listing:
    """Files in order; where they hold texts, these are numbered through all of them."""

    files: tuple[str, ...]
    counts: tuple[int, ...] = ()
    """Texts in every file; empty where nobody asks."""

    @property
    def offsets(self) -> tuple[int, ...]:
        """Number of the first text of every file."""
        return tuple(accumulate(self.counts, initial=0))[:-1]

    @property
    def total(self) -> int:
        """Texts in all files."""
        return sum(self.counts)


def save_listing(path: Path, files: Iterable[str | Path], counts: Sequence[int] = ()) -> str:
    """Write the list; returns where it lies, which is all that a task need carry."""
    atomic_json(path, {"files": [str(file) for file in files], "counts": list(counts)})
    return str(path)


def open_listing(path: str) -> Listing:
    """Read what `save_listing` wrote."""
    stored = orjson.loads(Path(path).read_bytes())
    return Listing(tuple(stored["files"]), tuple(stored["counts"]))
