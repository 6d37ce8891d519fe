"""Reading tokens: documents of a split by number, memory-mapped, with slice, source and raw bytes of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from umsicht.findings.errors import UserError
from umsicht.tokens.permutation import Permutation, derive_key
from umsicht.tokens.shards import FORMAT_VERSION, INDEX
from umsicht.words import t

Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class Split:
    """Documents of one split, or a selection of them. Each document ends with the end token.

    `arrays` are the token arrays of the shards; document i lies in `arrays[shards[i]]` from `starts[i]` on, `lengths[i]` tokens long.
    """

    name: str
    arrays: tuple[NDArray[Any], ...]
    shards: NDArray[np.int32]
    starts: Int64s
    lengths: Int64s
    slice_numbers: NDArray[np.int32]
    source_numbers: NDArray[np.int32]
    document_bytes: Int64s
    slices: list[str]
    sources: list[str]

    @property
    def n_documents(self) -> int:
        """Documents."""
        return len(self.starts)

    @cached_property
    def n_tokens(self) -> int:
        """Tokens, end tokens included."""
        return int(self.lengths.sum())

    def __len__(self) -> int:
        return self.n_documents

    def document(self, number: int) -> NDArray[Any]:
        """Ids of a document, `[length]`, its end token last; a view of the file. Raises IndexError where there is none."""
        if not 0 <= number < self.n_documents:
            raise IndexError(f"document {number} is not in 0..{self.n_documents - 1}")
        start = int(self.starts[number])
        return self.arrays[int(self.shards[number])][start : start + int(self.lengths[number])]

    def slice_of(self, number: int) -> str:
        """Name of the slice (`domain.language`) of a document."""
        return self.slices[int(self.slice_numbers[number])]

    def source_of(self, number: int) -> str:
        """Name of the source of a document."""
        return self.sources[int(self.source_numbers[number])]

    def select(self, numbers: Int64s | Sequence[int]) -> Split:
        """Only these documents, in this order; nothing is copied but the index."""
        chosen = np.asarray(numbers, dtype=np.int64)
        return Split(
            self.name,
            self.arrays,
            self.shards[chosen],
            self.starts[chosen],
            self.lengths[chosen],
            self.slice_numbers[chosen],
            self.source_numbers[chosen],
            self.document_bytes[chosen],
            self.slices,
            self.sources,
        )

    def of_slice(self, name: str) -> Split:
        """Only the documents of one slice. Raises KeyError for an unknown name."""
        if name not in self.slices:
            raise KeyError(name)
        return self.select(np.flatnonzero(self.slice_numbers == self.slices.index(name)))

    def sample(self, bytes_per_slice: int, seed: int = 0) -> Split:
        """Whole documents of every slice up to about `bytes_per_slice` raw bytes each: the same ones each time.

        At least one document of each slice is taken; a document that would pass the limit by more than half is left out if others remain.
        """
        taken: list[int] = []
        for slice_number in range(len(self.slices)):
            members = np.flatnonzero(self.slice_numbers == slice_number)
            if not len(members):
                continue
            order = members[Permutation(len(members), derive_key(seed, slice_number)).all()]
            taken += _fill(order, self.document_bytes, bytes_per_slice)
        return self.select(np.sort(np.asarray(taken, dtype=np.int64)))

    def labels(self, by: str) -> tuple[NDArray[np.int32], list[str]]:
        """A number for each document and the names the numbers stand for, by `source`, `domain`, `language` or `slice`."""
        if by == "source":
            return self.source_numbers, self.sources
        if by == "slice":
            return self.slice_numbers, self.slices
        parts = [name.rpartition(".")[0 if by == "domain" else 2] for name in self.slices]
        names = sorted(set(parts))
        of_slice = np.asarray([names.index(part) for part in parts], dtype=np.int32)
        return (of_slice[self.slice_numbers] if len(self.slices) else self.slice_numbers), names


def _fill(order: Int64s, sizes: Int64s, limit: int) -> list[int]:
    taken: list[int] = []
    have = 0
    for number in order:
        size = int(sizes[number])
        if have >= limit:
            break
        if have + size > 1.5 * limit:
            continue
        taken.append(int(number))
        have += size
    if not taken and len(order):
        taken.append(int(order[np.argmin(sizes[order])]))
    return taken


@dataclass(frozen=True)
class TokenData:
    """A tokens artifact: both splits and what the ids mean."""

    train: Split
    val: Split
    n_tokens: int
    eos_id: int
    index: dict[str, Any]

    @classmethod
    def open(cls, folder: Path | str) -> TokenData:
        """Open a tokens folder. Raises UserError where it is none, or was written by a newer version."""
        folder = Path(folder)
        try:
            index = orjson.loads((folder / INDEX).read_bytes())
        except FileNotFoundError as error:
            raise UserError(
                t("tokens.no_folder", folder=str(folder)), fix=t("tokens.no_folder_fix")
            ) from error
        if index["version"] > FORMAT_VERSION:
            raise UserError(
                t("tokens.newer", version=index["version"], known=FORMAT_VERSION), fix=t("tokens.newer_fix")
            )
        read = {name: _read_split(folder / name, name, index) for name in ("train", "val")}
        return cls(read["train"], read["val"], int(index["n_tokens"]), int(index["eos_id"]), index)

    @property
    def slices(self) -> list[str]:
        """Names of all slices."""
        return list(self.index["slices"])


def _read_split(folder: Path, name: str, index: dict[str, Any]) -> Split:
    stems = sorted(path.name.partition(".")[0] for path in folder.glob("*.tokens.npy"))
    arrays: list[NDArray[Any]] = []
    parts: list[tuple[NDArray[Any], ...]] = []
    for number, stem in enumerate(stems):
        tokens = np.load(folder / f"{stem}.tokens.npy", mmap_mode="r")
        offsets, slices, sources, sizes = (
            np.load(folder / f"{stem}.{kind}.npy") for kind in ("documents", "slices", "sources", "bytes")
        )
        if str(tokens.dtype) != index["dtype"] or len(tokens) != offsets[-1]:
            raise UserError(
                t("tokens.shard_broken", file=str(folder / f"{stem}.tokens.npy")),
                fix=t("tokens.shard_broken_fix"),
            )
        arrays.append(tokens)
        parts.append(
            (np.full(len(slices), number, np.int32), offsets[:-1], np.diff(offsets), slices, sources, sizes)
        )
    if not parts:
        none32, none64 = np.zeros(0, np.int32), np.zeros(0, np.int64)
        parts = [(none32, none64, none64, none32, none32, none64)]
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    shard_of, starts, lengths, slice_numbers, source_numbers, sizes = columns
    return Split(
        name,
        tuple(arrays),
        shard_of,
        starts,
        lengths,
        slice_numbers,
        source_numbers,
        sizes,
        list(index["slices"]),
        list(index["sources"]),
    )
