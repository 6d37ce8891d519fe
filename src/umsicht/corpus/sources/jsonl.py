"""JSON lines: one object a line. Whole blocks of them are read as a column where nothing but their text is asked for and every line is sound;
anything else is read line by line, so that each broken line is named.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.json

from umsicht.corpus.sources import streams
from umsicht.corpus.sources.unit import MEMBER_BYTES, Broken, Column, Raw, Unit, document_of, too_long

BLOCK = 4 << 20
"""Bytes that are read at once."""
LEAST = 1 << 17
"""A smaller block goes line by line: many small files are worked on together."""
_NO_NUMBERS = (b"NaN", b"Infinity")
"""What one reader takes for a number and another does not; mostly they stand inside a text."""
_LINE_FEED, _RETURN, _OPEN, _CLOSE = 10, 13, 123, 125


def read_jsonl(unit: Unit, path: str, name: str, limit: int) -> Iterator[Raw | Broken | Column]:
    """One JSON object a line. A line that is no object, or has no text, is listed and skipped."""
    with streams.open_bytes(path) as opened:
        stream: streams.Readable = opened
        if unit.start:
            opened.seek(unit.start)
        elif unit.stop is None:
            stream = streams.as_utf8(opened)
        if unit.language_field or unit.licence_field or unit.limit_bytes is not None:
            yield from _by_line(unit, stream, name, unit.start)
            return
        for offset, block in _blocks(stream, unit.start):
            left: streams.Readable
            if isinstance(block, bytes):
                if unit.stop is not None and offset >= unit.stop:
                    break
                column = _column(_within(block, offset, unit.stop), offset, name, unit.text_field)
                if column is not None:
                    yield column
                    continue
                left = io.BytesIO(block)
            else:
                left = block
            yield from _by_line(unit, left, name, offset)


def _by_line(unit: Unit, stream: streams.Readable, name: str, start: int) -> Iterator[Raw | Broken]:
    plain = not (unit.language_field or unit.licence_field)
    for offset, data, length in streams.lines(stream, MEMBER_BYTES, start):
        if unit.stop is not None and offset >= unit.stop:
            break
        origin = f"{name}@{offset}"
        if data is not None and offset == 0:
            data = data.removeprefix(codecs.BOM_UTF8)
        if data is None:
            yield too_long(origin, length)
        elif plain and data[:1] == b"{":
            try:
                text = orjson.loads(data)[unit.text_field]
            except (orjson.JSONDecodeError, KeyError):
                text = None
            yield Raw(text, origin) if isinstance(text, str) else _row(unit, data, origin)
        elif data.strip():
            yield _row(unit, data, origin)


def _row(unit: Unit, data: bytes, origin: str) -> Raw | Broken:
    try:
        row = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        return Broken(origin, "invalid-json", str(error), len(data))
    return document_of(unit, row, origin, len(data))


def _blocks(stream: streams.Readable, start: int) -> Iterator[tuple[int, bytes | streams.Chained]]:
    """Whole lines, about `BLOCK` bytes at a time, with their place; where a line is longer than that, all the rest as a stream."""
    offset, held = start, b""
    for chunk in streams.chunks(stream, BLOCK):
        held += chunk
        end = held.rfind(b"\n") + 1
        if end == 0 and len(held) > BLOCK:
            yield offset, streams.Chained(held, stream)
            return
        if end:
            yield offset, held[:end]
            offset, held = offset + end, held[end:]
    if held:
        yield offset, held


def _within(block: bytes, offset: int, stop: int | None) -> bytes:
    """The lines that begin before a place."""
    if stop is None or offset + len(block) <= stop:
        return block
    end = block.find(b"\n", stop - offset - 1) + 1
    return block[:end] if end else block


def _column(block: bytes, offset: int, name: str, field: str) -> Column | None:
    """The texts of a block; None where a line is empty, no object, or has no text of that name, or where the block is small."""
    if len(block) < LEAST:
        return None
    lines = _lines_of(block)
    if lines is None:
        return None
    starts, ends = lines
    try:
        block.decode()
    except UnicodeDecodeError:
        return None
    texts = _flat(block, starts, ends, field)
    if texts is None:
        texts = _any(block, len(starts), field)
    if texts is None:
        return None
    origins = [f"{name}@{place}" for place in (starts + offset).tolist()]
    return Column(texts, origins)


def _flat(
    block: bytes, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], field: str
) -> pa.LargeStringArray | None:
    """The texts of flat objects; None where a line is anything else."""
    from umsicht.corpus.kernels.jsontext import read_texts

    out, offsets = np.empty(len(block), np.uint8), np.empty(len(starts) + 1, np.int64)
    wanted = np.frombuffer(field.encode(), np.uint8)
    if read_texts(np.frombuffer(block, np.uint8), starts, ends, wanted, out, offsets) < len(starts):
        return None
    return pa.LargeStringArray.from_buffers(len(starts), pa.py_buffer(offsets), pa.py_buffer(out))


def _any(block: bytes, lines: int, field: str) -> pa.LargeStringArray | None:
    """The texts of objects of any shape.

    Every line begins with a brace and ends with one. A reader of JSON that takes line ends for white space could only mistake where objects end if a
    line began inside of one, but nothing inside an object lets a line that closes a value be followed by a brace; so that as many objects as lines
    means one in each.
    """
    try:
        for line in _lines_with(_NO_NUMBERS, block):
            orjson.loads(line)
        table = pyarrow.json.read_json(
            pa.BufferReader(block),
            pyarrow.json.ReadOptions(use_threads=False, block_size=len(block) + 1),
            pyarrow.json.ParseOptions(
                explicit_schema=pa.schema([(field, pa.string())]), unexpected_field_behavior="ignore"
            ),
        )
    except (orjson.JSONDecodeError, pa.ArrowInvalid):
        return None
    texts = table.column(field).combine_chunks()
    if isinstance(texts, pa.ChunkedArray) or len(texts) != lines or texts.null_count:
        return None
    return texts.cast(pa.large_string())


def _lines_with(signs: tuple[bytes, ...], block: bytes) -> Iterator[bytes]:
    for sign in signs:
        place = 0
        while (place := block.find(sign, place)) >= 0:
            end = block.find(b"\n", place)
            end = end if end >= 0 else len(block)
            yield block[block.rfind(b"\n", 0, place) + 1 : end]
            place = end


def _lines_of(block: bytes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None:
    """Where lines begin and end, line ends left out; None where one does not begin with a brace and end with one."""
    data = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(data == _LINE_FEED)
    if not len(ends) or ends[-1] != len(data) - 1:
        ends = np.append(ends, len(data))
    starts = np.zeros(len(ends), np.int64)
    starts[1:] = ends[:-1] + 1
    if (ends <= starts).any():
        return None
    ends = ends - (data[ends - 1] == _RETURN)
    if (ends <= starts).any() or (data[starts] != _OPEN).any() or (data[ends - 1] != _CLOSE).any():
        return None
    return starts, ends
