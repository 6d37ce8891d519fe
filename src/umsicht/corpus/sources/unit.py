"""The small values that planning and reading exchange."""

from __future__ import annotations

from dataclasses import dataclass


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


@dataclass(frozen=True, slots=True)
class Raw:
    """A document as read: text, or bytes that still have to be decoded."""

    text: str | bytes
    origin: str
    language: str = ""
    licence: str = ""
    domain: str = ""


@dataclass(frozen=True, slots=True)
class Broken:
    """A member that could not be read. Counted and listed, never fatal."""

    origin: str
    reason: str
    detail: str = ""
    bytes: int = 0
