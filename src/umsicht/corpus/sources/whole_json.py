"""JSON in one piece: a list of objects, an object that holds one, or a single object. Files of this name that hold one object a line are read as such."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import Any

import orjson

from umsicht.corpus.sources import jsonl, streams
from umsicht.corpus.sources.unit import (
    MEMBER_BYTES,
    Broken,
    Column,
    Raw,
    Unit,
    document_of,
    text_at,
    too_long,
)

HEAD = 1 << 16
"""Bytes that mostly show whether there is one object a line; only where the first line is longer is more looked at."""


def read_json(unit: Unit, path: str, name: str, limit: int) -> Iterator[Raw | Broken | Column]:
    """Rows of a JSON file; one that is longer than `MEMBER_BYTES` and not one object a line is listed as too long."""
    with streams.open_bytes(path) as opened:
        stream = streams.as_utf8(opened)
        data = streams.up_to(stream, HEAD)
        lines = _is_lines(data)
        if not lines:
            data += streams.up_to(stream, MEMBER_BYTES + 1 - len(data))
            lines = _is_lines(data)
    if lines:
        yield from jsonl.read_jsonl(unit, path, name, limit)
        return
    if len(data) > MEMBER_BYTES:
        yield too_long(name, len(data))
        return
    try:
        loaded = orjson.loads(data.removeprefix(codecs.BOM_UTF8))
    except orjson.JSONDecodeError as error:
        yield Broken(name, "invalid-json", str(error), len(data))
        return
    for number, row in enumerate(_rows(loaded, unit.text_field)):
        origin = f"{name}#{number}"
        yield Raw(row, origin) if isinstance(row, str) else document_of(unit, row, origin)


def _is_lines(data: bytes) -> bool:
    """Whether the first line is an object of its own and another line follows."""
    head, found, rest = data.removeprefix(codecs.BOM_UTF8).lstrip().partition(b"\n")
    if not found or not head.startswith(b"{") or not rest[:HEAD].strip():
        return len(data) > MEMBER_BYTES and head.startswith(b"{")
    try:
        return isinstance(orjson.loads(head), dict)
    except orjson.JSONDecodeError:
        return False


def _rows(loaded: Any, field: str) -> list[Any]:
    """A list itself; of an object its one list of objects, unless it has the text itself."""
    if isinstance(loaded, list):
        return loaded
    if isinstance(loaded, dict) and text_at(loaded, field) is None:
        lists = [
            value
            for value in loaded.values()
            if isinstance(value, list) and value and isinstance(value[0], dict)
        ]
        if len(lists) == 1:
            return lists[0]
    return [loaded]
