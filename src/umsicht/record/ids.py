"""Names made from content: the same thing has the same id on every machine."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import orjson

SMALL = 1 << 18
_DIGESTS: dict[tuple[str, int, int], str] = {}


def canonical(obj: Any) -> bytes:
    """`obj` as JSON bytes with sorted keys: equal objects give equal bytes."""
    return orjson.dumps(obj, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS, default=_plain)


def _plain(obj: Any) -> Any:
    if isinstance(obj, Path):
        return obj.as_posix()
    if isinstance(obj, set | frozenset):
        return sorted(obj)
    if hasattr(obj, "model_dump"):
        return obj.model_dump(mode="json")
    raise TypeError(f"cannot put {type(obj).__name__} into an id")


def content_id(obj: Any) -> str:
    """SHA-256 of the canonical JSON of `obj`, 64 hex digits."""
    return hashlib.sha256(canonical(obj)).hexdigest()


def short(identity: str) -> str:
    """The first 12 digits of an id: what folders and tables show."""
    return identity[:12]


def bytes_digest(data: bytes) -> str:
    """SHA-256 of `data`, 64 hex digits."""
    return hashlib.sha256(data).hexdigest()


def file_digest(path: str | os.PathLike[str], *, fresh: bool = False) -> str:
    """SHA-256 of a file's bytes; remembered for this process by path, size and modification time.

    `fresh` reads the file again whatever is remembered: verification must not trust a time stamp.
    """
    path = Path(path)
    stat = path.stat()
    key = (str(path.resolve()), stat.st_size, stat.st_mtime_ns)
    if fresh or key not in _DIGESTS:
        with path.open("rb") as file:
            # Of a small file at once: `file_digest` clears a quarter of a megabyte for each.
            small = stat.st_size < SMALL
            found = hashlib.sha256(file.read()) if small else hashlib.file_digest(file, "sha256")
            _DIGESTS[key] = found.hexdigest()
    return _DIGESTS[key]
