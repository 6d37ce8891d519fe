"""ARC, the format before WARC (Internet Archive, 1996): a line `URL IP date type length`, then so many bytes. URLs may hold spaces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO


@dataclass(frozen=True)
class ArcRecord:
    """One record; `error` says what is wrong with a broken one."""

    url: str
    media: str
    data: bytes
    error: str = ""


def records(stream: IO[bytes], limit: int) -> Iterator[ArcRecord]:
    """Records after the file's own header record. A broken header is given out, and reading goes on at the next line that is one."""
    while line := stream.readline(65_536):
        text = line.decode("utf-8", "replace").strip()
        if not text:
            continue
        parts = text.rsplit(" ", 4)
        if len(parts) != 5 or "://" not in parts[0]:
            continue
        url, _, _, media, length = parts
        own = url.startswith("filedesc:")
        if not length.isdigit():
            if not own:
                yield ArcRecord(url, media, b"", f"length {length!r}")
            continue
        size = int(length)
        data = stream.read(min(size, limit + 1))
        short = len(data) < min(size, limit + 1)
        left = size - len(data)
        while left > 0 and not short:
            skipped = len(stream.read(min(left, 1 << 20)))
            if not skipped:
                break
            left -= skipped
        if not own:
            yield ArcRecord(
                url, media.lower(), data, f"cut off: {len(data)} of {size} bytes" if short else ""
            )


def body(data: bytes) -> bytes:
    """What follows the HTTP header, if there is one."""
    if not data.startswith(b"HTTP/"):
        return data
    for blank in (b"\r\n\r\n", b"\n\n"):
        _, found, rest = data.partition(blank)
        if found:
            return rest
    return b""
