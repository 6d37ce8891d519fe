"""The disposable cache beside a run: its columns as raw numbers in one file that opens without parsing.

It lives in the user's cache folder, never in the run's, so that a read-only share works and `verify` finds nothing foreign. Deleting it
costs a rebuild and nothing else. A sidecar that does not match the metrics file (replaced, truncated, edited) is ignored.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from umsicht.record import atomic_write
from umsicht.record.columns import AXES, Columns, Sparse

VERSION = 1
_MAGIC = b"umsicht-columns\n"
_PROBE_BYTES = 256


@dataclass(frozen=True)
class Mark:
    """How far a metrics file was read, and enough to see later that it is still the same file."""

    offset: int
    inode: int
    head: str
    before: str

    @classmethod
    def take(cls, path: Path, offset: int) -> Mark:
        """Note the state of `path` up to `offset` (the end of a whole line)."""
        with path.open("rb") as file:
            head = file.readline(1 << 16)[:offset]
            file.seek(max(0, offset - _PROBE_BYTES))
            before = file.read(min(offset, _PROBE_BYTES))
            inode = os.fstat(file.fileno()).st_ino
        return cls(offset, inode, _digest(head), _digest(before))

    def holds(self, path: Path) -> bool:
        """True while the file still begins as it did: same inode, first line and last lines read, not shorter."""
        if path.stat().st_size < self.offset:
            return False
        return Mark.take(path, self.offset) == self


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def cache_folder(run_folder: Path) -> Path:
    """Where this run's disposable files go: `$XDG_CACHE_HOME/umsicht/dashboard/<hash of the run's path>/`."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    name = hashlib.sha256(str(run_folder.resolve()).encode()).hexdigest()[:24]
    return Path(base) / "umsicht" / "dashboard" / name


def write(path: Path, columns: Columns, mark: Mark) -> None:
    """Write `columns` as read up to `mark`."""
    blocks: list[bytes] = []
    entries: list[list[Any]] = []
    position = 0
    for name, kind, data in _arrays(columns):
        raw = np.ascontiguousarray(data).tobytes()
        raw += b"\0" * (-len(raw) % 8)
        entries.append([name, kind, len(data), position])
        blocks.append(raw)
        position += len(raw)
    head = orjson.dumps({"version": VERSION, "mark": asdict(mark), "bad": columns.bad, "arrays": entries})
    head += b" " * (-(len(_MAGIC) + len(head) + 1) % 8) + b"\n"
    atomic_write(path, b"".join([_MAGIC, head, *blocks]))


def _arrays(columns: Columns) -> list[tuple[str, str, Any]]:
    arrays: list[tuple[str, str, Any]] = [(name, "axis", getattr(columns, name)) for name in AXES]
    for key, column in columns.series.items():
        arrays.append((key, "rows", column.rows))
        arrays.append((key, "values", column.values))
    return arrays


def read(path: Path) -> tuple[Columns, Mark] | None:
    """The columns, memory-mapped, with their mark; None where there is no usable sidecar."""
    try:
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                return None
            head = file.readline()
        about = orjson.loads(head)
        if about.get("version") != VERSION:
            return None
        base = len(_MAGIC) + len(head)
        whole = np.memmap(path, np.uint8, "r")
        return _columns(about, whole[base:]), Mark(**about["mark"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _columns(about: dict[str, Any], data: np.ndarray[Any, np.dtype[np.uint8]]) -> Columns:
    axes: dict[str, Any] = {}
    rows: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for name, kind, length, start in about["arrays"]:
        dtype = np.dtype(np.int32 if kind == "rows" else np.float64)
        view = data[start : start + length * dtype.itemsize].view(dtype)
        {"axis": axes, "rows": rows, "values": values}[kind][name] = view
    series = {key: Sparse(rows[key], values[key]) for key in rows}
    return Columns(
        axes["step"], axes["tokens"], axes["time"], axes["segment"], series=series, bad=int(about["bad"])
    )
