"""Opening files by address and compression, and reading them piece by piece with bounded memory."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Protocol

import pyarrow as pa
from zstandard import ZstdError

COMPRESSIONS = (".gz", ".zst", ".bz2", ".xz")
CHUNK = 1 << 20
FIRST = 1 << 16


class Readable(Protocol):
    """All that cutting a stream asks of it."""

    def read(self, n: int, /) -> bytes:
        """Up to `n` bytes; empty at the end."""


_OPENERS: dict[str, Callable[[IO[bytes]], Any]] = {
    ".gz": lambda raw: gzip.GzipFile(fileobj=raw),
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
}

STREAM_ERRORS: tuple[type[Exception], ...] = (
    OSError,
    EOFError,
    zlib.error,
    lzma.LZMAError,
    ValueError,
    pa.ArrowException,
    ZstdError,
)


def is_remote(path: str) -> bool:
    """An fsspec address rather than a path of this machine."""
    return "://" in path and not path.startswith("file://")


def plain_suffix(name: str) -> str:
    """The suffix below a compression suffix, in lower case: `a.jsonl.gz` gives `.jsonl`."""
    path = Path(name.lower())
    if path.suffix in COMPRESSIONS:
        path = path.with_suffix("")
    return path.suffix


def open_bytes(path: str) -> IO[bytes]:
    """Open for reading, decompressed by suffix. Raises OSError where it cannot be opened."""
    suffix = f".{path.lower().rpartition('.')[2]}"
    if is_remote(path):
        import fsspec

        return _decompressed(fsspec.open(path, "rb").open(), suffix)
    return _decompressed(Path(path.removeprefix("file://")).open("rb"), suffix)


def _decompressed(raw: IO[bytes], suffix: str) -> IO[bytes]:
    opened: Any = raw
    if suffix in _OPENERS:
        opened = _OPENERS[suffix](raw)
    elif suffix == ".zst":
        import zstandard

        opened = io.BufferedReader(
            zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True, closefd=True)
        )
    result: IO[bytes] = opened
    return result


def up_to(stream: Readable, limit: int) -> bytes:
    """The stream's first `limit` bytes. Asked for all at once, they would have their room reserved for every small file."""
    held = [stream.read(min(FIRST, limit))]
    left = limit - len(held[0])
    while left > 0 and held[-1]:
        held.append(stream.read(min(CHUNK, left)))
        left -= len(held[-1])
    return held[0] if len(held) == 1 else b"".join(held)


class Chained:
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


class Recoded:
    """A stream of UTF-16 as UTF-8. Raises UnicodeDecodeError (a ValueError) where it breaks off."""

    def __init__(self, stream: Readable) -> None:
        self._decoder, self._stream = codecs.getincrementaldecoder("utf-16")(), stream

    def read(self, n: int, /) -> bytes:
        while True:
            data = self._stream.read(n)
            text = self._decoder.decode(data, final=not data)
            if text or not data:
                return text.encode("utf-8", "replace")


def as_utf8(stream: IO[bytes]) -> Readable:
    """The stream itself; one that begins with a mark of UTF-16 recoded."""
    peek = getattr(stream, "peek", None)
    head = peek(2)[:2] if peek else b""
    return Recoded(stream) if head in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else stream


def chunks(stream: Readable, size: int) -> Iterator[bytes]:
    """What the stream holds, so many bytes at a time. Of a stream that breaks off all that could be read comes before the error."""
    read = getattr(stream, "read1", stream.read)
    held: list[bytes] = []
    wanted = size
    while True:
        try:
            data = read(wanted)
        except STREAM_ERRORS:
            if held:
                yield b"".join(held)
            raise
        held.append(data)
        wanted -= len(data)
        if not data or wanted <= 0:
            if whole := b"".join(held):
                yield whole
            held, wanted = [], size
        if not data:
            return


def lines(stream: Readable, limit: int, start: int = 0) -> Iterator[tuple[int, bytes | None, int]]:
    """Lines with their byte offset and length; a line longer than `limit` comes as None and is never held in memory."""
    offset, held, dropped = start, bytearray(), 0
    for chunk in chunks(stream, CHUNK):
        position = 0
        while (end := chunk.find(b"\n", position)) >= 0:
            length = dropped + len(held) + end - position
            if dropped or length > limit:
                yield offset, None, length
            else:
                yield offset, bytes(held) + chunk[position:end], length
            offset += length + 1
            held.clear()
            dropped, position = 0, end + 1
        if dropped or len(held) + len(chunk) - position > limit:
            dropped += len(held) + len(chunk) - position
            held.clear()
        else:
            held += chunk[position:]
    if held or dropped:
        yield offset, None if dropped else bytes(held), dropped + len(held)


def pieces(stream: Readable, separator: bytes, size: int, limit: int) -> Iterator[tuple[int, bytes]]:
    """Cut a long stream after `separator` into pieces of about `size` bytes; without one, at a line end, and at worst at `limit`."""
    offset, held = 0, bytearray()
    while True:
        chunk = stream.read(CHUNK)
        held += chunk
        while len(held) > size:
            cut = _cut(held, separator, size, limit, last=not chunk)
            if cut is None:
                break
            yield offset, bytes(held[:cut])
            offset += cut
            del held[:cut]
        if not chunk:
            break
    if held:
        yield offset, bytes(held)


def _cut(held: bytearray, separator: bytes, size: int, limit: int, *, last: bool) -> int | None:
    found = held.find(separator, size)
    if found >= 0:
        return found + len(separator)
    if len(held) < limit:
        return None if not last or len(held) <= limit else limit
    line = held.rfind(b"\n", size, limit)
    if line >= 0:
        return line + 1
    cut = limit
    while cut > 0 and held[cut] & 0xC0 == 0x80:
        cut -= 1
    return cut or limit


def separated(stream: IO[bytes], separator: bytes, limit: int) -> Iterator[tuple[int, bytes | None, int]]:
    """Documents between separators, as `lines` gives lines."""
    offset, held, dropped = 0, bytearray(), 0
    while True:
        chunk = stream.read(CHUNK)
        held += chunk
        position = 0
        while (end := held.find(separator, position)) >= 0:
            length = dropped + end - position
            yield offset, None if dropped or length > limit else bytes(held[position:end]), length
            offset += length + len(separator)
            dropped, position = 0, end + len(separator)
        del held[:position]
        if not chunk:
            break
        if dropped or len(held) > limit:
            keep = len(separator) - 1
            dropped += len(held) - keep
            del held[: len(held) - keep]
    length = dropped + len(held)
    if length:
        yield offset, None if dropped or length > limit else bytes(held), length
