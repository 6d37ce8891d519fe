"""Bytes of a log as text: gzip or zstd unpacked, UTF-8, UTF-16 or Latin-1."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from umsicht.findings.errors import UserError
from umsicht.words import t


def read_bytes(path: Path) -> bytes:
    """The file's bytes, unpacked. Raises UserError where the packing is damaged from the first byte on."""
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        return _gunzip(data, path)
    if data[:4] == b"\x28\xb5\x2f\xfd":
        return _unzstd(data, path)
    return data


def _gunzip(data: bytes, path: Path) -> bytes:
    """What can be unpacked of it: a file that is still being written ends in the middle."""
    try:
        return gzip.decompress(data)
    except (EOFError, OSError, zlib.error):
        pass
    stream = zlib.decompressobj(wbits=31)
    parts: list[bytes] = []
    for start in range(0, len(data), 65_536):
        try:
            parts.append(stream.decompress(data[start : start + 65_536]))
        except zlib.error:
            break
    whole = b"".join(parts)
    if not whole:
        raise UserError(
            t("diagnose.log.packed", path=path), where=str(path), fix=t("diagnose.log.unknown.fix")
        )
    return whole


def _unzstd(data: bytes, path: Path) -> bytes:
    try:
        import zstandard
    except ImportError:
        raise UserError(
            t("diagnose.log.zstd", path=path), where=str(path), fix="pip install zstandard"
        ) from None
    with zstandard.ZstdDecompressor().stream_reader(data) as reader:
        try:
            unpacked: bytes = reader.read()
        except zstandard.ZstdError:
            raise UserError(t("diagnose.log.packed", path=path), where=str(path)) from None
    return unpacked


def decode(data: bytes) -> str:
    """Text of a log. A byte-order mark decides; else UTF-8, else Latin-1 (which fits always: numbers and names survive)."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", errors="replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if error.end == len(data) and error.reason == "unexpected end of data":
            return data[: error.start].decode("utf-8-sig")
        return data.decode("latin-1")
