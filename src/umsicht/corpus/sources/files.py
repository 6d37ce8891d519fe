"""Readers of ordinary files: plain text, code, Parquet; compressed or not, here or at any fsspec address."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from umsicht.corpus.sources import delimited, hub, jsonl, streams, web, whole_json
from umsicht.corpus.sources.unit import MEMBER_BYTES, Broken, Column, Raw, Unit, joined, label_of, too_long

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
        ".json": "json",
        ".parquet": "parquet",
        ".csv": "table",
        ".tsv": "table",
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
    """Rows of a Parquet file, a row group at a time; a dotted field is one inside a struct. A missing text column is a broken member."""
    fields = [field for field in (unit.text_field, unit.language_field, unit.licence_field) if field]
    with streams.open_bytes(path) as stream:
        file = pq.ParquetFile(stream)
        roots = [_root(field, file.schema_arrow.names) for field in fields]
        if None in roots:
            missing, known = fields[roots.index(None)], ", ".join(file.schema_arrow.names)
            yield Broken(name, "no-text", f"no column {missing!r}; columns: {known}")
            return
        stop = file.num_row_groups if unit.stop is None else unit.stop
        for group in range(unit.start, stop):
            row = 0
            for batch in file.iter_batches(batch_size=1024, row_groups=[group], columns=fields):
                texts = _texts(batch, unit.text_field)
                if texts is None:
                    kind = file.schema_arrow.field(roots[0]).type
                    yield Broken(name, "no-text", f"column {unit.text_field!r} holds {kind}, not text")
                    return
                if len(fields) == 1 and unit.limit_bytes is None and (column := _sound(texts)) is not None:
                    yield Column(column, [f"{name}#{group}.{row + k}" for k in range(len(column))])
                    row += len(column)
                    continue
                labels = batch.to_pylist() if len(fields) > 1 else [{}] * len(texts)
                for text, values in zip(texts.to_pylist(), labels, strict=True):
                    origin = f"{name}#{group}.{row}"
                    row += 1
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


def _root(field: str, names: list[str]) -> str | None:
    """The column that a field is, or is inside of."""
    parts = field.split(".")
    heads = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
    return next((head for head in heads if head in names), None)


def _texts(batch: pa.RecordBatch, field: str) -> pa.Array | None:
    """The texts of a batch as strings, or as bytes where the file does not say that they are text; None where they are neither."""
    root = _root(field, batch.schema.names)
    if root is None:
        return None
    column = batch.column(root)
    for part in field[len(root) + 1 :].split(".") if field != root else ():
        if not pa.types.is_struct(column.type) or column.type.get_field_index(part) < 0:
            return None
        column = pa.compute.struct_field(column, part)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if _is_text(kind):
        return column
    if pa.types.is_string_view(kind):
        return column.cast(pa.large_string())
    if _is_list(kind) and (_is_text(kind.value_type) or pa.types.is_struct(kind.value_type)):
        return pa.array([joined(value) for value in column.to_pylist()], pa.large_string())
    return column if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) else None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _sound(texts: pa.Array) -> pa.LargeStringArray | None:
    """The texts as they are, where there are many, and each is there, is UTF-8, and is not too long."""
    if (
        not _is_text(texts.type)
        or texts.nbytes < jsonl.LEAST
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
    "json": whole_json.read_json,
    "parquet": read_parquet,
    "table": delimited.read_table,
    "huggingface": hub.read_hub,
}
