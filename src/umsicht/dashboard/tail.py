"""Reads a growing `metrics.jsonl`: only what is new, one reader at a time, and aloud when the file was replaced.

One lock a run: without it five charts that ask at once parse the same bytes five times and lose the place.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path

from umsicht.dashboard import sidecar
from umsicht.record.columns import Builder, Columns, concatenate, empty

CHUNK_BYTES = 1 << 20
LONGEST_LINE_BYTES = 64 << 20
SIDECAR_FILE = "columns.bin"


class Tail:
    """The columns of one metrics file, kept up to date.

    `columns()` reads what was appended since the last call. A torn last line stays unread until its newline comes. A file that became
    shorter, or whose first or last lines read changed, is read again from the start (`restarts` counts this).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.restarts = 0
        self._lock = threading.Lock()
        self._columns = empty()
        self._mark: sidecar.Mark | None = None

    @property
    def sidecar_path(self) -> Path:
        return sidecar.cache_folder(self.path.parent) / SIDECAR_FILE

    def columns(self) -> Columns:
        """All rows so far. A missing file gives no rows."""
        with self._lock:
            self._catch_up()
            return self._columns

    def unread_bytes(self) -> int:
        """How much of the file is not parsed yet, counting a valid sidecar as parsed."""
        with self._lock:
            self._begin()
            size = self.path.stat().st_size if self.path.exists() else 0
            return size - (self._mark.offset if self._mark else 0)

    def save(self) -> None:
        """Write the sidecar for what was read so far."""
        with self._lock:
            if self._mark is not None:
                sidecar.write(self.sidecar_path, self._columns, self._mark)

    def _begin(self) -> None:
        if not self.path.exists():
            self._columns, self._mark = empty(), None
            return
        if self._mark is not None and not self._mark.holds(self.path):
            self.restarts += 1
            self._columns, self._mark = empty(), None
        if self._mark is None:
            found = sidecar.read(self.sidecar_path)
            if found is not None and found[1].holds(self.path):
                self._columns, self._mark = found

    def _catch_up(self) -> None:
        self._begin()
        if not self.path.exists():
            return
        offset = self._mark.offset if self._mark else 0
        if self._mark is not None and self.path.stat().st_size == offset:
            return
        builder = Builder()
        offset = read_lines(self.path, offset, builder)
        self._columns = concatenate(self._columns, builder.columns())
        self._mark = sidecar.Mark.take(self.path, offset)


def read_lines(path: Path, offset: int, builder: Builder) -> int:
    """Feed whole lines from `offset` on; returns where the first unfinished line begins. A line longer than any row is bad and skipped."""
    parts: list[bytes] = []
    waiting, is_overlong = 0, False
    with path.open("rb") as file:
        file.seek(offset)
        while chunk := file.read(CHUNK_BYTES):
            head, newline, rest = chunk.rpartition(b"\n")
            if newline:
                whole = b"".join([*parts, head])
                if is_overlong:
                    _, _, whole = whole.partition(b"\n")
                    builder.feed([b"overlong"])
                builder.feed(whole.split(b"\n"))
                offset = file.tell() - len(rest)
                parts, waiting, is_overlong = [rest], len(rest), False
            else:
                parts.append(chunk)
                waiting += len(chunk)
            if waiting > LONGEST_LINE_BYTES:
                parts, waiting, is_overlong = [], 0, True
    return offset


class Tails:
    """The readers of the runs looked at last; older ones are forgotten so that memory stays bounded."""

    def __init__(self, keep: int = 8) -> None:
        self._keep = keep
        self._lock = threading.Lock()
        self._tails: OrderedDict[Path, Tail] = OrderedDict()

    def of(self, metrics_path: Path) -> Tail:
        """The one reader of this file."""
        with self._lock:
            tail = self._tails.setdefault(metrics_path, Tail(metrics_path))
            self._tails.move_to_end(metrics_path)
            while len(self._tails) > self._keep:
                self._tails.popitem(last=False)
            return tail
