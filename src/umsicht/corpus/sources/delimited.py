"""Tables as text: `.csv` and `.tsv`, one document a row. The first row names the columns."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.csv

from umsicht.corpus.sources import streams
from umsicht.corpus.sources.unit import Broken, Column, Raw, Unit

BLOCK = 8 << 20
"""Bytes that are read at once. A row that is longer ends the reading of its file, which is listed as unreadable from there on."""
HEAD = 1 << 16
"""Bytes in which the names of the columns are looked for."""
SEPARATORS = ",;\t|"


class _File(io.RawIOBase):
    """What is left of a stream as a file, which Arrow asks for. Quotes are counted: after one that is never closed the rest is one row."""

    def __init__(self, head: bytes, stream: streams.Readable) -> None:
        self._rest = streams.Chained(head, stream)
        self.quotes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, into: memoryview) -> int:  # type: ignore[override]  # any buffer; Arrow gives this one
        data = self._rest.read(len(into))
        into[: len(data)] = data
        self.quotes += data.count(b'"')
        return len(data)


def read_table(unit: Unit, path: str, name: str, limit: int) -> Iterator[Raw | Broken | Column]:
    """Rows of a table. What separates columns is taken from the row of their names; a row with more or fewer columns than that is listed and skipped.

    Origins count the rows that could be read; a broken row is named by its number in the file, that of the names being 1.
    """
    fields = [field for field in (unit.text_field, unit.language_field, unit.licence_field) if field]
    with streams.open_bytes(path) as opened:
        stream = streams.as_utf8(opened)
        head = streams.up_to(stream, HEAD)
        separator, names = _names(head, fields)
        missing = [field for field in fields if field not in names]
        if missing:
            yield Broken(name, "no-text", f"no column {missing[0]!r}; columns: {', '.join(names)}")
            return
        broken: list[pa.csv.InvalidRow] = []
        file = _File(head, stream)
        batches = _batches(file, separator, fields, broken)
        row = 0
        for batch in batches:
            for wrong in _taken(broken):
                yield _broken(name, wrong)
            columns = [batch.column(field).to_pylist() for field in fields]
            labels = [list(map(_label, values)) for values in columns[1:]]
            for k, text in enumerate(columns[0]):
                language = labels[0][k] if unit.language_field else ""
                licence = labels[-1][k] if unit.licence_field else ""
                yield Raw(text, f"{name}#{row + k}", language, licence)
            row += len(batch)
        for wrong in _taken(broken):
            yield _broken(name, wrong)
        if file.quotes % 2:
            yield Broken(
                name, "open-quote", f"a quote is never closed; {row} rows were read, others may follow it"
            )


def _batches(
    file: _File, separator: str, fields: list[str], broken: list[pa.csv.InvalidRow]
) -> Iterator[pa.RecordBatch]:
    """Text comes as bytes: what encoding it is in, the pipeline tells as of any other text."""

    def skip(row: pa.csv.InvalidRow) -> str:
        broken.append(row)
        return "skip"

    kinds = {field: pa.binary() for field in fields}
    yield from pa.csv.open_csv(
        io.BufferedReader(file, HEAD),
        pa.csv.ReadOptions(use_threads=False, block_size=BLOCK),
        pa.csv.ParseOptions(delimiter=separator, newlines_in_values=True, invalid_row_handler=skip),
        pa.csv.ConvertOptions(include_columns=fields, column_types=kinds, check_utf8=False),
    )


def _names(head: bytes, fields: list[str]) -> tuple[str, list[str]]:
    """What separates columns, and their names: the first sign by which the wanted ones are among them, else the one that gives most columns."""
    line = head.decode("utf-8-sig", "replace")
    found = [(sign, next(csv.reader(io.StringIO(line), delimiter=sign), [])) for sign in SEPARATORS]
    whole = [entry for entry in found if all(field in entry[1] for field in fields)]
    return max(whole or found, key=lambda entry: len(entry[1]))


def _taken(rows: list[pa.csv.InvalidRow]) -> list[pa.csv.InvalidRow]:
    taken, rows[:] = rows[:], []
    return taken


def _broken(name: str, row: pa.csv.InvalidRow) -> Broken:
    detail = f"{row.actual_columns} columns instead of {row.expected_columns}"
    return Broken(f"{name}:{row.number}", "wrong-columns", detail, len(row.text.encode("utf-8", "replace")))


def _label(value: bytes) -> str:
    return value.decode("utf-8", "replace").strip()
