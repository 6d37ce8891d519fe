"""JSON lines: our own metrics.jsonl outside a run folder, and other tools' rows under other names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from umsicht.diagnose.curves import Curves, Damage
from umsicht.diagnose.logs import names
from umsicht.diagnose.logs.rows import Columns, build, number
from umsicht.diagnose.logs.text import read_bytes
from umsicht.diagnose.record_reader import from_columns
from umsicht.findings.errors import UserError
from umsicht.record.columns import read_columns
from umsicht.words import t


def read_jsonl_log(path: Path, columns: Mapping[str, str] | None = None) -> Curves:
    """Curves of a JSON-lines file. Raises UserError where no line holds a known metric."""
    data = read_bytes(path)
    if columns is None and b'"segment"' in data[:4_000] and not path.name.endswith((".gz", ".zst")):
        curves = from_columns(*read_columns(path), str(path))
        curves.format = "metrics.jsonl"
        return curves
    damage = Damage()
    return curves_of_rows(_rows(data, damage), path, columns, damage, "jsonl")


def curves_of_rows(
    rows: list[dict[str, Any]], path: Path, columns: Mapping[str, str] | None, damage: Damage, form: str
) -> Curves:
    """Curves of rows that hold other tools' names. Raises UserError where none is known."""
    found = Columns()
    keys = list(dict.fromkeys(key for row in rows for key in row))
    mapped = names.mapping(keys, columns)
    step_key = next((theirs for theirs, ours in mapped.items() if ours == names.STEP), None)
    for index, row in enumerate(rows):
        step = _step(row.get(step_key) if step_key else index + 1)
        if step is None:
            damage.unreadable += 1
            continue
        for key, value in row.items():
            ours = mapped.get(key)
            if ours == names.TIME and not isinstance(value, int | float):
                continue
            if ours is not None and ours not in (names.STEP, names.RUN):
                _add(found, ours, step, value, damage)
    if not any(name.startswith(("train", "val")) for name in found.steps):
        raise UserError(
            t("diagnose.log.no_column", columns=", ".join(keys[:12]) or "-"),
            where=str(path),
            fix="--column train/loss=NAME --column val/all/loss=NAME",
        )
    return build(found, source=str(path), format=form, rows=len(rows), damage=damage, wanted=columns or ())


def _rows(data: bytes, damage: Damage) -> list[dict[str, Any]]:
    lines = data.split(b"\n")
    tail = lines.pop()
    rows = []
    for line in lines:
        row = _row(line)
        if row is not None:
            rows.append(row)
        elif line.strip():
            damage.unreadable += 1
    last = _row(tail)
    if last is not None:
        rows.append(last)
    elif tail.strip():
        damage.torn += 1
    return rows


def _row(line: bytes) -> dict[str, Any] | None:
    """One object; bare NaN and Infinity, which Python writes, are read as what they mean."""
    try:
        loaded = orjson.loads(line)
    except orjson.JSONDecodeError:
        for bare in (b"NaN", b"-Infinity", b"Infinity"):
            for before in (b": ", b":"):
                line = line.replace(before + bare, before + b'"' + bare + b'"')
        try:
            loaded = orjson.loads(line)
        except orjson.JSONDecodeError:
            return None
    return flat(loaded) if isinstance(loaded, dict) else None


def flat(row: dict[str, Any]) -> dict[str, Any]:
    """Objects inside an object as names with slashes; a wrapper that says nothing (`metrics/train/loss`) falls away."""
    found: dict[str, Any] = {}
    for key, value in row.items():
        if not isinstance(value, dict):
            found.setdefault(key, value)
            continue
        for inner, figure in flat(value).items():
            name = f"{key}/{inner}"
            found.setdefault(inner if names.canonical(name) is None and "/" in inner else name, figure)
    return found


def _step(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    try:
        figure = number(str(value))
        return None if figure is None else round(figure)
    except (ValueError, OverflowError):
        return None


def _add(found: Columns, name: str, step: int, value: Any, damage: Damage) -> None:
    if value is None or isinstance(value, bool | dict | list):
        return
    try:
        figure = number(str(value))
    except ValueError:
        damage.unreadable += 1
        return
    if figure is not None:
        found.add(name, step, figure)
