"""Readers of ordinary files: plain text, code, JSONL, Parquet; compressed or not, here or at any fsspec address."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import orjson

from umsicht.corpus.sources import hub, streams, web
from umsicht.corpus.sources.unit import Broken, Raw, Unit, dig, label_of

PIECE_BYTES = 1_000_000
MEMBER_BYTES = 64_000_000
"""A line, page or row that is longer is never held in memory: it is listed as too long."""

TEXT_SUFFIXES = {
    ".txt": "",
    ".text": "",
    ".md": "",
    ".markdown": "",
    ".rst": "",
    ".adoc": "",
    ".org": "",
    ".tex": "",
}
CODE_SUFFIXES = {
    ".py": "python",
    ".pyi": "python",
    ".js": "javascript",
    ".mjs": "javascript",
    ".ts": "typescript",
    ".tsx": "typescript",
    ".c": "c",
    ".h": "c",
    ".cc": "cpp",
    ".cpp": "cpp",
    ".hpp": "cpp",
    ".java": "java",
    ".kt": "kotlin",
    ".go": "go",
    ".rs": "rust",
    ".rb": "ruby",
    ".php": "php",
    ".cs": "csharp",
    ".swift": "swift",
    ".scala": "scala",
    ".sh": "shell",
    ".sql": "sql",
    ".r": "r",
    ".jl": "julia",
    ".lua": "lua",
    ".pl": "perl",
    ".hs": "haskell",
    ".css": "css",
}


def reader_of(name: str) -> str | None:
    """Which reader a file name calls for; None: no reader knows it."""
    suffix = streams.plain_suffix(name)
    if suffix in TEXT_SUFFIXES or suffix in CODE_SUFFIXES:
        return "text"
    return {
        ".jsonl": "jsonl",
        ".ndjson": "jsonl",
        ".parquet": "parquet",
        ".html": "html",
        ".htm": "html",
        ".xhtml": "html",
        ".warc": "warc",
        ".arc": "warc",
        ".wet": "warc",
    }.get(suffix)


def read_text(unit: Unit, path: str, name: str, limit: int) -> Iterator[Raw | Broken]:
    """A file is a document; a file with a separator holds many; a very long one is cut at blank lines."""
    language = CODE_SUFFIXES.get(streams.plain_suffix(name), "")
    domain = "code" if language and unit.source.domain == "text" else ""
    with streams.open_bytes(path) as stream:
        if unit.separator:
            for offset, data, length in streams.separated(stream, unit.separator.encode(), MEMBER_BYTES):
                origin = f"{name}@{offset}"
                yield (
                    Raw(data, origin, language, "", domain) if data is not None else _too_long(origin, length)
                )
            return
        head = stream.read(limit + 1)
        if len(head) <= limit:
            yield Raw(head, name, language, "", domain)
            return
        for offset, data in streams.pieces(
            _Chained(head, stream), b"\n\n", min(PIECE_BYTES, limit // 2), limit
        ):
            yield Raw(data, f"{name}@{offset}", language, "", domain)


class _Chained:
    """Bytes already read, then the rest of the stream."""

    def __init__(self, head: bytes, stream: Any) -> None:
        self._head, self._position, self._stream = head, 0, stream

    def read(self, n: int, /) -> bytes:
        if self._position < len(self._head):
            data = self._head[self._position : self._position + n]
            self._position += len(data)
            return data
        data = self._stream.read(n)
        return bytes(data)


def read_jsonl(unit: Unit, path: str, name: str, limit: int) -> Iterator[Raw | Broken]:
    """One JSON object a line. A line that is no object, or has no text, is listed and skipped."""
    plain = not (unit.language_field or unit.licence_field)
    with streams.open_bytes(path) as stream:
        if unit.start:
            stream.seek(unit.start)
        for offset, data, length in streams.lines(stream, MEMBER_BYTES, unit.start):
            if unit.stop is not None and offset >= unit.stop:
                break
            origin = f"{name}@{offset}"
            if data is None:
                yield _too_long(origin, length)
            elif plain and data[:1] == b"{":
                try:
                    text = orjson.loads(data)[unit.text_field]
                except (orjson.JSONDecodeError, KeyError):
                    text = None
                yield Raw(text, origin) if isinstance(text, str) else _json_row(unit, data, origin)
            elif data.strip():
                yield _json_row(unit, data, origin)


def _json_row(unit: Unit, data: bytes, origin: str) -> Raw | Broken:
    try:
        row = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        return Broken(origin, "invalid-json", str(error), len(data))
    text = dig(row, unit.text_field)
    if not isinstance(text, str):
        return Broken(origin, "no-text", f"no string under {unit.text_field!r}", len(data))
    return Raw(text, origin, label_of(row, unit.language_field), label_of(row, unit.licence_field))


def read_parquet(unit: Unit, path: str, name: str, limit: int) -> Iterator[Raw | Broken]:
    """Rows of a Parquet file, a row group at a time. A missing text column is a broken member."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    fields = [field for field in (unit.text_field, unit.language_field, unit.licence_field) if field]
    with streams.open_bytes(path) as stream:
        file = pq.ParquetFile(stream)
        missing = [field for field in fields if field not in file.schema_arrow.names]
        if missing:
            yield Broken(
                name, "no-text", f"no column {missing[0]!r}; columns: {', '.join(file.schema_arrow.names)}"
            )
            return
        stop = file.num_row_groups if unit.stop is None else unit.stop
        for group in range(unit.start, stop):
            row = 0
            for batch in file.iter_batches(batch_size=1024, row_groups=[group], columns=fields):
                texts = batch.column(unit.text_field)
                if not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
                    yield Broken(name, "no-text", f"column {unit.text_field!r} holds {texts.type}, not text")
                    return
                for values in batch.to_pylist():
                    origin = f"{name}#{group}.{row}"
                    row += 1
                    text = values[unit.text_field]
                    if text is None:
                        yield Broken(origin, "no-text", "null")
                    elif len(text) > MEMBER_BYTES:
                        yield _too_long(origin, len(text))
                    else:
                        yield Raw(
                            text,
                            origin,
                            label_of(values, unit.language_field),
                            label_of(values, unit.licence_field),
                        )


def _too_long(origin: str, length: int) -> Broken:
    return Broken(origin, "too-long", f"{length} bytes", length)


READERS: dict[str, Callable[[Unit, str, str, int], Iterator[Raw | Broken]]] = {
    "html": web.read_html,
    "warc": web.read_warc,
    "text": read_text,
    "jsonl": read_jsonl,
    "parquet": read_parquet,
    "huggingface": hub.read_hub,
}
