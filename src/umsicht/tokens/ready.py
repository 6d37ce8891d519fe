"""Ready-made token files as a source: nanoGPT's raw `.bin`, the `.bin` with a header of llm.c and modded-nanogpt, and NumPy's `.npy`.

Documents are what lies between end tokens; where the end token is not known the whole file is one document. Bytes of the text are known only with
the tokenizer that made the ids: without it there are no bits per byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from umsicht.findings import UserError
from umsicht.tokenizer import Tokenizer
from umsicht.tokenizer.vocabulary import token_lengths
from umsicht.tokens.data import Split, TokenData
from umsicht.tokens.shards import id_dtype
from umsicht.words import t

HEADER_INTS = 256
# llm.c: data/tokenizer output; version 1 holds uint16, version 7 uint32 (`dev/data/data_common.py`).
_MAGIC = {20240520: np.uint16, 20240801: np.uint32}


@dataclass(frozen=True)
class ReadyMade:
    """What the files were made with. `n_tokens` is the whole vocabulary, special tokens included; `dtype` is that of raw `.bin` files."""

    n_tokens: int
    eos_id: int | None
    dtype: str = "uint16"
    slice_name: str = "ready.und"


def open_files(
    train: Sequence[Path], val: Sequence[Path], made: ReadyMade, tokenizer: Tokenizer | None = None
) -> TokenData:
    """Token files as training and validation data; nothing is copied. Raises UserError for a file that cannot be what it is said to be."""
    splits = {name: _split(name, files, made, tokenizer) for name, files in (("train", train), ("val", val))}
    if not splits["train"].n_tokens:
        raise UserError(t("tokens.ready_empty"), where=", ".join(map(str, train)), fix=t("tokens.ready_fix"))
    index = {
        "slices": [made.slice_name],
        "sources": sorted({path.stem for path in (*train, *val)}),
        "pooled": {},
    }
    return TokenData(splits["train"], splits["val"], made.n_tokens, made.eos_id or 0, index)


def read_ids(path: Path, dtype: str) -> NDArray[Any]:
    """The ids of one file, memory-mapped. Raises UserError where it is missing or no whole number of ids."""
    if not path.is_file():
        raise UserError(t("tokens.ready_missing", file=path), fix=t("tokens.ready_fix"))
    if path.suffix == ".npy":
        ids: NDArray[Any] = np.load(path, mmap_mode="r")
        if ids.ndim != 1 or ids.dtype.kind not in "ui":
            raise UserError(
                t("tokens.ready_shape", file=path, dtype=ids.dtype, shape=ids.shape),
                fix=t("tokens.ready_fix"),
            )
        return ids
    kind, offset = np.dtype(dtype), 0
    if path.stat().st_size >= 4 * HEADER_INTS:
        header = np.fromfile(path, dtype=np.int32, count=3)
        if int(header[0]) in _MAGIC:
            kind, offset = np.dtype(_MAGIC[int(header[0])]), 4 * HEADER_INTS
            if path.stat().st_size != offset + int(header[2]) * kind.itemsize:
                raise UserError(
                    t("tokens.ready_torn", file=path, expected=int(header[2])), fix=t("tokens.ready_fix")
                )
    size = path.stat().st_size - offset
    if size % kind.itemsize:
        raise UserError(
            t("tokens.ready_odd", file=path, size=size, width=kind.itemsize), fix=t("tokens.ready_fix")
        )
    if not size:
        return np.zeros(0, dtype=kind)
    return np.memmap(path, dtype=kind, mode="r", offset=offset)


def _split(name: str, files: Sequence[Path], made: ReadyMade, tokenizer: Tokenizer | None) -> Split:
    lengths_of = token_lengths(tokenizer) if tokenizer is not None else None
    names = sorted({path.stem for path in files})
    arrays: list[NDArray[Any]] = []
    # Shard, start, length, source and bytes of each document, one block a file; the empty block gives a split without files its shape.
    blocks: list[NDArray[np.int64]] = [np.zeros((5, 0), dtype=np.int64)]
    for number, path in enumerate(files):
        ids = read_ids(path, made.dtype)
        _check_range(path, ids, made)
        ends = _document_ends(ids, made.eos_id)
        begin = np.concatenate([np.zeros(min(1, len(ends)), np.int64), ends[:-1]])
        same = np.ones(len(ends), np.int64)
        sizes = _bytes(ids, begin, ends, lengths_of)
        arrays.append(ids)
        blocks.append(np.stack([number * same, begin, ends - begin, names.index(path.stem) * same, sizes]))
    shard_of, start, length, source, size = np.concatenate(blocks, axis=1)
    return Split(
        name,
        tuple(arrays),
        shard_of.astype(np.int32),
        start,
        length,
        np.zeros(len(start), np.int32),
        source.astype(np.int32),
        size,
        [made.slice_name],
        names,
    )


def _document_ends(ids: NDArray[Any], eos_id: int | None) -> NDArray[np.int64]:
    """One past the last token of each document; what follows the last end token is a document without one."""
    if not len(ids):
        return np.zeros(0, np.int64)
    ends = (
        np.flatnonzero(np.asarray(ids) == eos_id).astype(np.int64) + 1
        if eos_id is not None
        else np.zeros(0, np.int64)
    )
    if not len(ends) or ends[-1] != len(ids):
        ends = np.append(ends, len(ids))
    return ends


def _check_range(path: Path, ids: NDArray[Any], made: ReadyMade) -> None:
    """Ids read with the wrong width are large, or every second one is 0: both are refused."""
    if not len(ids):
        return
    largest = int(ids.max())
    if largest >= made.n_tokens:
        raise UserError(
            t("tokens.ready_range", file=path, id=largest, n=made.n_tokens, dtype=ids.dtype), why=t("tokens.ready_range_why"),
            fix=t("tokens.ready_fix"),
        )  # fmt: skip
    head = np.asarray(ids[:100_000])
    if len(head) >= 1000 and ids.dtype == np.uint16 and id_dtype(made.n_tokens) == np.uint16:
        for side in (head[0::2], head[1::2]):
            if float((side == 0).mean()) > 0.99:
                raise UserError(
                    t("tokens.ready_width", file=path),
                    why=t("tokens.ready_range_why"),
                    fix=t("tokens.ready_fix"),
                )


def _bytes(
    ids: NDArray[Any], begin: NDArray[np.int64], ends: NDArray[np.int64], lengths_of: NDArray[np.int32] | None
) -> NDArray[np.int64]:
    if lengths_of is None or not len(ends):
        return np.zeros(len(ends), np.int64)
    total = np.concatenate([[0], np.cumsum(lengths_of[np.asarray(ids)], dtype=np.int64)])
    sizes: NDArray[np.int64] = total[ends] - total[begin]
    return sizes
