"""The small values that planning and reading exchange."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

MEMBER_BYTES = 64_000_000
"""A line, page or row that is longer is never held in memory: it is listed as too long."""


@dataclass(frozen=True)
class SourceInfo:
    """What is known of a source before it is read; enters the report."""

    name: str
    domain: str
    language: str = ""
    licence: str = "unknown"
    package: str = ""
    version: str = ""


@dataclass(frozen=True)
class Unit:
    """One piece of reading that no other piece overlaps: a few files, or a range of one."""

    source: SourceInfo
    reader: str
    paths: tuple[str, ...]
    names: tuple[str, ...]
    """How `paths` are called in the origin of documents: relative, without anything of this machine."""
    bytes: int
    start: int = 0
    stop: int | None = None
    """Byte range of a plain JSONL file, or row groups of a Parquet file."""
    limit_bytes: int | None = None
    """Stop after about so many bytes of text."""
    text_field: str = "text"
    language_field: str = ""
    licence_field: str = ""
    separator: str = ""
    options: tuple[str, ...] = ()
    """What a reader needs besides: of a data set its subset, split and revision; of web pages the extractor."""


class Raw(NamedTuple):
    """A document as read: text, or bytes that still have to be decoded. (A tuple, because one is made for every document.)"""

    text: str | bytes
    origin: str
    language: str = ""
    licence: str = ""
    domain: str = ""


class Column(NamedTuple):
    """Many documents at once: texts of which nothing else is known."""

    texts: pa.LargeStringArray
    origins: list[str]


@dataclass(frozen=True, slots=True)
class Broken:
    """A member that could not be read. Counted and listed, never fatal."""

    origin: str
    reason: str
    detail: str = ""
    bytes: int = 0


def too_long(origin: str, length: int) -> Broken:
    """A member beyond `MEMBER_BYTES`."""
    return Broken(origin, "too-long", f"{length} bytes", length)


def dig(row: Any, field: str) -> Any:
    """The value under a dotted path; None where the path ends early."""
    if isinstance(row, dict) and field in row:
        return row[field]
    for key in field.split("."):
        row = row.get(key) if isinstance(row, dict) else None
    return row


def label_of(row: Any, field: str) -> str:
    """A label in a row: empty where there is none."""
    value = dig(row, field) if field else None
    return value.strip() if isinstance(value, str) else ""


SAID = ("content", "value", "text")
"""Fields in which formats of conversations keep what was said."""
FIELDS_NAMED = 8


def text_at(row: Any, field: str) -> str | None:
    """The text under a dotted path. Of a list of texts, or of turns of a conversation, all of them, with a blank line between; None where there is no text."""
    value = dig(row, field)
    return value if isinstance(value, str) else joined(value)


def joined(value: Any) -> str | None:
    """The texts of a list in one, None where a member has none."""
    if not isinstance(value, list) or not value:
        return None
    said = [_said(turn) for turn in value]
    return None if None in said else "\n\n".join(text for text in said if text is not None)


def _said(turn: Any) -> str | None:
    if isinstance(turn, dict):
        return next((turn[name] for name in SAID if isinstance(turn.get(name), str)), None)
    return turn if isinstance(turn, str) else None


def document_of(unit: Unit, row: Any, origin: str, length: int = 0) -> Raw | Broken:
    """A row as a document with the labels that its fields give; broken where it has no text."""
    text = text_at(row, unit.text_field)
    if text is None:
        return Broken(origin, "no-text", _no_text(row, unit.text_field), length)
    return Raw(text, origin, label_of(row, unit.language_field), label_of(row, unit.licence_field))


def _no_text(row: Any, field: str) -> str:
    """Why a row is no document, and what it has instead."""
    why = f"no string under {field!r}"
    if not isinstance(row, dict):
        return why
    names = [str(name) for name in row][:FIELDS_NAMED]
    return f"{why}; fields: {', '.join(names)}" if names else why
