"""Readers of ordinary files: plain text, code, Parquet; compressed or not, here or at any fsspec address."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from umsicht.corpus.sources import hub, jsonl, streams, web
from umsicht.corpus.sources.unit import MEMBER_BYTES, Broken, Column, Raw, Unit, label_of, too_long

PIECE_BYTES = 1_000_000

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
                    Raw(data, origin, language, "", domain) if data is not None else too_long(origin, length)
                )
            return
        head = streams.up_to(stream, limit + 1)
        if len(head) <= limit:
            yield Raw(head, name, language, "", domain)
            return
        for offset, data in streams.pieces(
            streams.Chained(head, stream), b"\n\n", min(PIECE_BYTES, limit // 2), limit
        ):
            yield Raw(data, f"{name}@{offset}", language, "", domain)


def read_parquet(unit: Unit, path: str, name: str, limit: int) -> Iterator[Raw | Broken | Column]:
    """Rows of a Parquet file, a row group at a time. A missing text column is a broken member."""
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
                if len(fields) == 1 and unit.limit_bytes is None and (column := _sound(texts)) is not None:
                    yield Column(column, [f"{name}#{group}.{row + k}" for k in range(len(column))])
                    row += len(column)
                    continue
                for values in batch.to_pylist():
                    origin = f"{name}#{group}.{row}"
                    row += 1
                    text = values[unit.text_field]
                    if text is None:
                        yield Broken(origin, "no-text", "null")
                    elif len(text) > MEMBER_BYTES:
                        yield too_long(origin, len(text))
                    else:
                        yield Raw(
                            text,
                            origin,
                            label_of(values, unit.language_field),
                            label_of(values, unit.licence_field),
                        )


def _sound(texts: pa.Array) -> pa.LargeStringArray | None:
    """The texts as they are, where there are many, and each is there, is UTF-8, and is not too long."""
    if (
        texts.nbytes < jsonl.LEAST
        or texts.null_count
        or pa.compute.max(pa.compute.binary_length(texts)).as_py() > MEMBER_BYTES
    ):
        return None
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return None
    return texts.cast(pa.large_string())


READERS: dict[str, Callable[[Unit, str, str, int], Iterator[Raw | Broken | Column]]] = {
    "html": web.read_html,
    "warc": web.read_warc,
    "text": read_text,
    "jsonl": jsonl.read_jsonl,
    "parquet": read_parquet,
    "huggingface": hub.read_hub,
}
