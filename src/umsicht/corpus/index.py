"""The small index that goes with every partition: one fixed-size row a document, memory-mapped by the stages that look across partitions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from umsicht.corpus.listing import Listing

ROW = np.dtype([("hi", "<u8"), ("lo", "<u8"), ("bytes", "<u4"), ("slice", "<u2"), ("source", "<u2")])
"""The 128-bit hash of the text, its size, and the numbers of its slice and source in the partition's own lists."""

DROP = np.dtype(
    [("part", "<u4"), ("row", "<u4"), ("kept_part", "<u4"), ("kept_row", "<u4"), ("score", "<f4")]
)
"""A document that goes, the document that stays in its place, and how alike they are."""

Rows = npt.NDArray[Any]


def text_hash(data: bytes) -> int:
    """128-bit XXH3 of UTF-8 bytes."""
    return xxhash.xxh3_128_intdigest(data)


def hex_id(hi: int, lo: int) -> str:
    """The document id, 32 hex digits."""
    return f"{hi:016x}{lo:016x}"


def index_path(folder: Path, key: str) -> Path:
    """Where the index of a partition lies."""
    return folder / f"{key}.rows.npy"


def sketch_path(folder: Path, key: str) -> Path:
    """Where the bottom sketches of a partition's documents lie, `[documents, SKETCH]`."""
    return folder / f"{key}.sketch.npy"


def shingles_path(folder: Path, key: str) -> Path:
    """Where the numbers of shingles of a partition's documents lie."""
    return folder / f"{key}.shingles.npy"


def open_rows(path: Path) -> Rows:
    """Memory-map an index; an empty one is read."""
    rows: Rows = np.load(path, mmap_mode="r") if path.stat().st_size > 256 else np.load(path)
    return rows


def save_array(path: Path, array: npt.NDArray[Any]) -> Path:
    """`np.save`, and where it lies now: stages are handed files, not arrays."""
    np.save(path, array)
    return path


def save_rows(path: Path, chunks: Sequence[Rows]) -> None:
    """`np.save` of rows one after the other, without putting them together in memory first."""
    first = chunks[0]
    about = {
        "descr": np.lib.format.dtype_to_descr(first.dtype),
        "fortran_order": False,
        "shape": (sum(map(len, chunks)), *first.shape[1:]),
    }
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, about)
        for chunk in chunks:
            chunk.tofile(file)


def ids_of(indexes: Listing, numbers: npt.NDArray[np.integer[Any]]) -> list[str]:
    """The ids that documents had when they were read, by number through all partitions; every index is opened once."""
    ids = [""] * len(numbers)
    offsets = np.array(indexes.offsets, np.int64)
    parts = np.searchsorted(offsets, numbers, "right") - 1
    for part in np.unique(parts).tolist():
        rows = open_rows(Path(indexes.files[part]))
        places = np.flatnonzero(parts == part)
        chosen = rows[numbers[places].astype(np.int64) - offsets[part]]
        for place, hi, lo in zip(places.tolist(), chosen["hi"].tolist(), chosen["lo"].tolist(), strict=True):
            ids[place] = hex_id(hi, lo)
    return ids


def drops_of(files: Sequence[str], part: int) -> Rows:
    """All drops of one partition out of files that are sorted by partition."""
    found = []
    for name in files:
        drops = open_rows(Path(name))
        first, last = np.searchsorted(drops["part"], [part, part + 1])
        if last > first:
            found.append(np.array(drops[first:last]))
    return np.concatenate(found) if found else np.empty(0, DROP)
