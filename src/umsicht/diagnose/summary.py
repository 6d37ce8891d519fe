"""One line a run, fast: fifty records of 100,000 rows in a few seconds, and only the new rows of one that grows.

A summary needs one number of most rows (the training loss) and everything of the few rows that hold a validation. So the rows are not
parsed one by one: the training losses are picked out by one regular expression over a piece of the file, the rows with a validation and the
last row are parsed. The file is never held whole.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from umsicht.diagnose.series import MAD_TO_SIGMA, Floats
from umsicht.diagnose.thresholds import DEFAULT
from umsicht.record.metrics import unspell

PIECE = 4 << 20
_TRAIN = re.compile(rb'"train/loss": ?(-?[0-9][0-9.eE+-]*)')
_SPELLED = (b'"NaN"', b'"Infinity"', b'"-Infinity"')
_VALIDATION = b'"val/all/'


@dataclass(frozen=True)
class RunSummary:
    """What a list of runs shows of one of them."""

    name: str
    rows: int
    torn: int
    unreadable: int
    restarts: int
    last_step: int | None
    tokens: int | None
    train_loss: float | None
    train_best: float | None
    val_loss: float | None
    val_best: float | None
    val_best_step: int | None
    val_bpb: float | None
    nonfinite: int
    spikes: int

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)


@dataclass
class Columns:
    """What a summary needs of a record read so far; `update()` takes in what was appended since."""

    path: Path
    offset: int = 0
    rows: int = 0
    torn: int = 0
    unreadable: int = 0
    nonfinite: int = 0
    identity: tuple[int, int] = (0, 0)
    first: dict[str, Any] = field(default_factory=dict)
    last: dict[str, Any] = field(default_factory=dict)
    train: list[Floats] = field(default_factory=list)
    validations: list[dict[str, Any]] = field(default_factory=list)

    def update(self) -> int:
        """Read the rows appended since the last call; the number of them. A file that was replaced or cut is read from its beginning."""
        status = self.path.stat()
        identity = (status.st_dev, status.st_ino)
        if identity != self.identity or status.st_size < self.offset:
            self.__init__(self.path, identity=identity)  # type: ignore[misc]  # the one way to forget everything read
        before = self.rows
        buffer, filled, torn = bytearray(PIECE), 0, False
        with self.path.open("rb", buffering=0) as file:
            file.seek(self.offset)
            while True:
                if filled == len(buffer):
                    buffer.extend(bytes(len(buffer)))  # one line longer than the buffer
                with memoryview(buffer) as view:
                    read = file.readinto(view[filled:])
                if not read:
                    break
                end = buffer.rfind(b"\n", filled, filled + read)
                filled += read
                if end >= 0:
                    self._take(buffer, end)
                    self.offset += end + 1
                    buffer[: filled - end - 1] = buffer[end + 1 : filled]
                    filled -= end + 1
            torn = bool(buffer[:filled].strip())
        self.torn = 1 if torn else 0
        return self.rows - before

    def _take(self, data: bytearray, end: int) -> None:
        """Take in the whole lines `data[:end]`; `end` is the place of the last line's end."""
        lines = data.count(b"\n", 0, end) + 1
        rows = data.count(b'{"step"', 0, end)
        if rows != lines:
            rows = sum(b'"step":' in line and line[-1:] == b"}" for line in data[:end].split(b"\n"))
        self.rows += rows
        self.unreadable += lines - rows
        if data.find(b': "' if b'": ' in data[:200] else b':"', 0, end) >= 0:
            self.nonfinite += sum(data.count(word, 0, end) for word in _SPELLED)
        found = _TRAIN.findall(data, 0, end)
        if found:
            self.train.append(np.fromiter(map(float, found), np.float64, len(found)))
        self.validations += _validations(data, end)
        self.first = self.first or _row(data[: data.find(b"\n", 0, end + 1)])
        self.last = _row(data[data.rfind(b"\n", 0, end) + 1 : end]) or self.last

    def losses(self) -> Floats:
        """Every finite training loss, in the order of the file."""
        if len(self.train) > 1:
            self.train = [np.concatenate(self.train)]
        return self.train[0] if self.train else np.array([])


def _validations(data: bytearray, end: int) -> list[dict[str, Any]]:
    """The rows of `data[:end]` that hold a validation over all slices."""
    found = []
    at = data.find(_VALIDATION, 0, end)
    while at >= 0:
        begin, stop = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at, end)
        stop = end if stop < 0 else stop
        row = _row(data[begin:stop])
        if row:
            found.append(row)
        at = data.find(_VALIDATION, stop, end)
    return found


def _row(line: bytes | bytearray) -> dict[str, Any]:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return {}
    return {key: unspell(value) for key, value in row.items()} if isinstance(row, dict) else {}


def summarise(folder: Path, columns: Columns | None = None) -> RunSummary:
    """The summary of one run folder; `columns` from an earlier call are brought up to date instead of read again."""
    columns = columns or Columns(folder / "metrics.jsonl")
    columns.update()
    train = columns.losses()
    val = [
        (row["val/all/loss"], row.get("step"))
        for row in columns.validations
        if _finite(row.get("val/all/loss"))
    ]
    bpb = [row["val/all/bpb"] for row in columns.validations if _finite(row.get("val/all/bpb"))]
    best = min(val, key=lambda pair: pair[0], default=(None, None))
    return RunSummary(
        name=folder.name,
        rows=columns.rows,
        torn=columns.torn,
        unreadable=columns.unreadable,
        restarts=max(0, _whole(columns.last.get("segment"), 0) - _whole(columns.first.get("segment"), 0)),
        last_step=columns.last.get("step"),
        tokens=columns.last.get("tokens"),
        train_loss=float(np.median(train[-21:])) if len(train) else None,
        train_best=_best_block(train),
        val_loss=val[-1][0] if val else None,
        val_best=best[0],
        val_best_step=best[1],
        val_bpb=bpb[-1] if bpb else None,
        nonfinite=columns.nonfinite,
        spikes=_spikes(train),
    )


def summarise_all(folders: Iterable[Path], *, workers: int | None = None) -> list[RunSummary]:
    """Summaries of many runs, in the order given; runs without a record are left out. Many runs are shared among processes."""
    workers = workers or os.cpu_count() or 2
    with_record = [folder for folder in folders if (folder / "metrics.jsonl").is_file()]
    if workers < 2 or len(with_record) < 8:
        return [summarise(folder) for folder in with_record]
    with ProcessPoolExecutor(workers) as pool:
        return list(pool.map(summarise, with_record, chunksize=2))


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and bool(np.isfinite(value))


def _whole(value: Any, default: int) -> int:
    return value if isinstance(value, int) else default


def _blocks(train: Floats) -> Floats:
    width = DEFAULT.spike_window
    return train[: len(train) // width * width].reshape(-1, width)


def _best_block(train: Floats) -> float | None:
    blocks = _blocks(train)
    if len(blocks) == 0:
        return float(np.median(train)) if len(train) else None
    return float(_middle(blocks).min())


def _middle(blocks: Floats) -> Floats:
    """Median of each row by sorting, which numpy does four times faster than its own median here."""
    ordered = np.sort(blocks, axis=1)
    half = blocks.shape[1] // 2
    middle: Floats = (ordered[:, half - 1] + ordered[:, half]) / 2
    return middle


def _spikes(train: Floats) -> int:
    """Groups of points above median + 6 robust sigma of the block of 64 before theirs: the spike rule in blocks, for speed."""
    blocks = _blocks(train)
    if len(blocks) < 2:
        return 0
    middle = _middle(blocks)
    sigma = MAD_TO_SIGMA * _middle(np.abs(blocks - middle[:, None]))
    least = np.maximum(DEFAULT.spike_sigma * np.maximum(sigma, DEFAULT.sigma_floor), DEFAULT.spike_floor)
    high = (blocks[1:] > (middle + least)[:-1, None]).ravel()
    return int(np.count_nonzero(np.diff(np.flatnonzero(high), prepend=-10) > 3)) if high.any() else 0
