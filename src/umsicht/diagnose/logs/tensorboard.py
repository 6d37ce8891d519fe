"""TensorBoard event files, read without TensorBoard: the few fields of its records that hold scalars.

An event file is a sequence of records (length uint64, crc32c of it, bytes, crc32c of them); each record is a protobuf `Event` with
wall_time (1, double), step (2, varint) and summary (5), whose values (1) hold tag (1), simple_value (2, float) or tensor (8). The package
itself would bring 60 MB of dependencies for these fields. Formats: tensorboard/compat/proto/{event,summary,tensor}.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from umsicht.diagnose.curves import Curves, Damage
from umsicht.diagnose.logs import names
from umsicht.diagnose.logs.rows import Columns, build
from umsicht.findings.errors import UserError
from umsicht.words import t

_DT_FLOAT, _DT_DOUBLE = 1, 2


def event_files(folder: Path) -> list[Path]:
    """Event files of a folder and the folders directly in it, in order of writing (their names hold the time)."""
    found = list(folder.glob("*tfevents*")) + list(folder.glob("*/*tfevents*"))
    return sorted(found, key=lambda path: (_written(path), path.name))


def _written(path: Path) -> int:
    digits = [part for part in path.name.split(".") if part.isdigit() and len(part) >= 9]
    return int(digits[0]) if digits else 0


def read_tensorboard(path: Path) -> Curves:
    """Curves of an event file, or of all event files of a folder, later files over earlier ones."""
    files = event_files(path) if path.is_dir() else [path]
    damage, columns = Damage(), Columns()
    tags: dict[str, None] = {}
    rows = 0
    for file in files:
        prefix = f"{file.parent.name}/" if path.is_dir() and file.parent != path else ""
        for record in _records(file.read_bytes(), damage):
            rows += 1
            step, values = _event(record)
            for tag, value in values:
                tags[tag] = None
                ours = names.canonical(tag) or names.canonical(prefix + tag)
                if ours is not None and ours not in (names.STEP, names.RUN):
                    columns.add(ours, step, value)
    if not columns.steps:
        raise UserError(
            t("diagnose.log.no_column", columns=", ".join(list(tags)[:12]) or "-"),
            where=str(path),
            fix=t("diagnose.log.unknown.fix"),
        )
    return build(columns, source=str(path), format="tensorboard", rows=rows, damage=damage)


def _records(data: bytes, damage: Damage) -> Iterator[bytes]:
    """Record bodies; the last one may be cut off by a writer that still runs or was killed."""
    at = 0
    while at < len(data):
        if at + 12 > len(data):
            damage.torn += 1
            return
        (length,) = struct.unpack_from("<Q", data, at)
        end = at + 12 + length
        if length > len(data) or end + 4 > len(data):
            damage.torn += 1
            return
        yield data[at + 12 : end]
        at = end + 4


def _fields(data: bytes) -> Iterator[tuple[int, int, bytes | int]]:
    """(field number, wire type, value) of one protobuf message; stops at damage."""
    at = 0
    while at < len(data):
        try:
            key, at = _varint(data, at)
            number, wire = key >> 3, key & 7
            if wire == 0:
                value, at = _varint(data, at)
                yield number, wire, value
            elif wire in (1, 5):
                size = 8 if wire == 1 else 4
                yield number, wire, data[at : at + size]
                at += size
            elif wire == 2:
                length, at = _varint(data, at)
                yield number, wire, data[at : at + length]
                at += length
            else:
                return
        except IndexError:
            return


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _event(data: bytes) -> tuple[int, list[tuple[str, float]]]:
    step, found = 0, []
    for number, _, value in _fields(data):
        if number == 2 and isinstance(value, int):
            step = value
        elif number == 5 and isinstance(value, bytes):
            found += [entry for inner, _, raw in _fields(value) if inner == 1 and (entry := _value(raw))]
    return step, found


def _value(data: bytes | int) -> tuple[str, float] | None:
    if isinstance(data, int):
        return None
    tag, figure = "", None
    for number, wire, value in _fields(data):
        if number == 1 and isinstance(value, bytes):
            tag = value.decode("utf-8", errors="replace")
        elif number == 2 and wire == 5 and isinstance(value, bytes):
            (figure,) = struct.unpack("<f", value)
        elif number == 8 and isinstance(value, bytes):
            figure = _tensor(value)
    return (tag, figure) if tag and figure is not None else None


def _tensor(data: bytes) -> float | None:
    """The one number of a scalar tensor, written as `float_val` (5), `double_val` (6) or raw content (4)."""
    kind, raw = _DT_FLOAT, b""
    for number, _, value in _fields(data):
        if number == 1 and isinstance(value, int):
            kind = value
        elif number in (4, 5, 6) and isinstance(value, bytes):
            raw = value
    try:
        if kind == _DT_FLOAT and len(raw) == 4:
            return float(struct.unpack("<f", raw)[0])
        if kind == _DT_DOUBLE and len(raw) == 8:
            return float(struct.unpack("<d", raw)[0])
    except struct.error:
        return None
    return None
