"""Token shards on disk: plain `.npy` files, memory-mapped when read.

For each split and shard number: `NNNNN.tokens.npy` (ids, uint16 or uint32), `NNNNN.documents.npy` (int64 offsets, one more than documents),
`NNNNN.slices.npy` and `NNNNN.sources.npy` (int32 numbers into the lists of `slices.json`), `NNNNN.bytes.npy` (int64, raw UTF-8 bytes of each
document). The header of each file names its dtype; an id that does not fit is an error, never a wrap-around.
"""

from __future__ import annotations

import io
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from umsicht.findings.errors import UserError
from umsicht.words import t

FORMAT_VERSION = 1
INDEX = "slices.json"
_HEADER_BYTES = 128


def id_dtype(n_tokens: int) -> np.dtype[Any]:
    """The smallest of uint16 and uint32 that holds every id of a vocabulary of `n_tokens` (special tokens counted)."""
    if n_tokens > 2**32:
        raise ValueError(f"{n_tokens} token ids do not fit into 32 bits")
    return np.dtype(np.uint16 if n_tokens <= 2**16 else np.uint32)


def checked(ids: NDArray[Any], n_tokens: int) -> NDArray[Any]:
    """`ids` in the dtype of the vocabulary. Raises UserError for an id outside it."""
    if ids.size and (int(ids.max()) >= n_tokens or int(ids.min()) < 0):
        raise UserError(
            t("tokens.id_outside", id=int(ids.max()), n=n_tokens),
            why=t("tokens.id_outside_why"),
            fix=t("tokens.id_outside_fix"),
        )
    return ids.astype(id_dtype(n_tokens))


class GrowingArray:
    """A one-dimensional `.npy` file that is appended to; its header is completed on closing."""

    def __init__(self, path: Path, dtype: np.dtype[Any]) -> None:
        self.path, self.dtype, self.length = path, dtype, 0
        self._file: BinaryIO = path.open("wb")
        self._file.write(b"\0" * _HEADER_BYTES)

    def append(self, values: NDArray[Any]) -> None:
        """Add values of exactly this dtype."""
        if values.dtype != self.dtype:
            raise TypeError(f"{self.path.name} holds {self.dtype}, not {values.dtype}")
        self._file.write(np.ascontiguousarray(values).data)
        self.length += len(values)

    def close(self) -> None:
        """Write the header and close."""
        self._file.seek(0)
        self._file.write(_header(self.dtype, self.length))
        self._file.close()


def _header(dtype: np.dtype[Any], length: int) -> bytes:
    buffer = io.BytesIO()
    npy.write_array_header_1_0(
        buffer, {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": (length,)}
    )
    written = buffer.getvalue()
    if len(written) != _HEADER_BYTES:
        raise RuntimeError(f"numpy wrote a header of {len(written)} bytes, expected {_HEADER_BYTES}")
    return written


class ShardWriter:
    """Writes the documents of one split; starts a new shard when one is full. A document never crosses shards."""

    def __init__(self, folder: Path, n_tokens: int, shard_tokens: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.n_tokens, self.shard_tokens = folder, n_tokens, shard_tokens
        self.shards = 0
        self.documents = 0
        self.tokens = 0
        self._tokens: GrowingArray | None = None
        self._offsets: list[int] = [0]
        self._labels: list[tuple[int, int, int]] = []

    def add(self, ids: NDArray[Any], slice_number: int, source_number: int, n_bytes: int) -> None:
        """Append one document, its end token included; `n_bytes` are the raw UTF-8 bytes of its text."""
        if self._tokens is None or (self._offsets[-1] + len(ids) > self.shard_tokens and self._labels):
            self._finish_shard()
            self._tokens = GrowingArray(self.folder / f"{self.shards:05}.tokens.npy", id_dtype(self.n_tokens))
        self._tokens.append(checked(ids, self.n_tokens))
        self._offsets.append(self._offsets[-1] + len(ids))
        self._labels.append((slice_number, source_number, n_bytes))
        self.documents += 1
        self.tokens += len(ids)

    def _finish_shard(self) -> None:
        if self._tokens is None:
            return
        self._tokens.close()
        labels = np.asarray(self._labels, dtype=np.int64).reshape(-1, 3)
        stem = self.folder / f"{self.shards:05}"
        np.save(f"{stem}.documents.npy", np.asarray(self._offsets, dtype=np.int64))
        np.save(f"{stem}.slices.npy", labels[:, 0].astype(np.int32))
        np.save(f"{stem}.sources.npy", labels[:, 1].astype(np.int32))
        np.save(f"{stem}.bytes.npy", labels[:, 2])
        self.shards += 1
        self._tokens, self._offsets, self._labels = None, [0], []

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._finish_shard()
        elif self._tokens is not None:
            self._tokens.close()
