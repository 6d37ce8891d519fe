"""Readers of web pages: HTML files, and WARC, ARC and WET archives. Main content only; every broken record is counted and listed."""

from __future__ import annotations

import gzip
import importlib.util
import re
import zlib
from collections.abc import Iterator
from typing import Any

from umsicht.corpus.normalise import Undecodable, decode
from umsicht.corpus.sources import arc, streams
from umsicht.corpus.sources.unit import Broken, Raw, Unit
from umsicht.findings import UserError
from umsicht.words import t

HTML_TYPES = ("text/html", "application/xhtml+xml")
TEXT_TYPES = ("text/plain",)
RECORD_TYPES = ("response", "conversion", "resource")
TRAFILATURA = "trafilatura"
PAGE_BYTES = 16_000_000
"""Longer pages are listed, not read."""
_CHARSET = re.compile(rb"<meta[^>]{0,200}charset=[\"']?([\w-]+)", re.I)


def check_extractor(source: str, name: str) -> None:
    """Raises UserError where a recipe asks for an extractor that is not installed."""
    if name == TRAFILATURA and importlib.util.find_spec(name) is None:
        raise UserError(
            t("corpus.extractor.package.what", source=source),
            where=f"corpus.sources.{source}.extractor",
            fix=t("corpus.extractor.package.fix"),
        )


def html_to_text(data: bytes, extractor: str = "", sent_as: str = "") -> str:
    """The main content of a page as text: headings and paragraphs apart, navigation and boilerplate left out. Raises `Undecodable`.

    `sent_as` is the encoding that the server named. A page on which no main content is told apart (short or unusual ones) gives all its text.
    """
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.html import HTMLTree

    page = _decode_page(data, sent_as)
    if extractor == TRAFILATURA:
        import trafilatura

        content = trafilatura.extract(page, include_comments=False, include_tables=True)
        if content:
            return _unwrap(str(content))
    tree = HTMLTree.parse(page)
    found = str(extract_plain_text(tree, main_content=True, alt_texts=False, links=False, form_fields=False))
    if len(found.strip()) < 80:
        found = str(
            extract_plain_text(tree, main_content=False, alt_texts=False, links=False, form_fields=False)
        )
    return _unwrap(found)


def _decode_page(data: bytes, sent_as: str = "") -> str:
    """UTF-8 wherever the bytes are that; then the encoding that the page names, as browsers understand the name, or the one it was sent as."""
    from resiliparse.parse.encoding import map_encoding_to_html5

    declared = _CHARSET.search(data[:4096])
    given = (declared[1].decode("ascii") if declared else "", sent_as)
    names = [str(map_encoding_to_html5(name)) for name in given if name]
    stateful = [name for name in names if name.startswith("iso2022")]
    for name in [*stateful, "utf-8-sig", *names]:
        if name.startswith("utf-16"):
            continue
        try:
            return data.decode(name)
        except (LookupError, UnicodeError):
            continue
    return decode(data)[0]


def _unwrap(text: str) -> str:
    """Lines without trailing spaces, at most one blank line in a row."""
    return re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in text.split("\n"))).strip()


def _inflated(data: bytes, limit: int) -> bytes:
    """Bodies that were stored as they came over the wire, compressed; one that is cut off gives what there is."""
    if not data.startswith(b"\x1f\x8b"):
        return data
    try:
        return zlib.decompressobj(31).decompress(data, limit + 1)
    except zlib.error:
        return data


def read_html(unit: Unit, path: str, name: str, limit: int) -> Iterator[Raw | Broken]:
    """One page, one document."""
    limit = max(limit, PAGE_BYTES)
    with streams.open_bytes(path) as stream:
        data = streams.up_to(stream, limit + 1)
    if len(data) > limit:
        yield Broken(name, "too-long", f"more than {limit} bytes", len(data))
    else:
        yield _page(data, name, unit)


def _page(data: bytes, origin: str, unit: Unit, sent_as: str = "") -> Raw | Broken:
    try:
        text = html_to_text(data, unit.options[0] if unit.options else "", sent_as)
    except Undecodable as error:
        return Broken(origin, "undecodable", str(error), len(data))
    if not text:
        return Broken(origin, "no-text", "no text on the page", len(data))
    return Raw(text, origin)


def read_warc(unit: Unit, path: str, name: str, limit: int) -> Iterator[Raw | Broken]:
    """Every page and every extracted text of an archive. Other records (requests, images) are left out, broken ones listed."""
    pages = 0
    limit = max(limit, PAGE_BYTES)
    read = _arc if streams.plain_suffix(name) == ".arc" else _warc
    for item in read(unit, path, name, limit):
        pages += 1
        yield item
    if not pages:
        yield Broken(name, "no-page", "no record of this archive is a page or a text")


def _arc(unit: Unit, path: str, name: str, limit: int) -> Iterator[Raw | Broken]:
    with streams.open_bytes(path) as stream:
        for number, record in enumerate(arc.records(stream, limit), 1):
            where = f"{name}#{number} {record.url}"
            data = arc.body(record.data)
            if record.error or not data.strip():
                yield Broken(where, "broken-record", record.error or "empty body", len(record.data))
            elif len(record.data) > limit:
                yield Broken(where, "too-long", f"more than {limit} bytes", len(record.data))
            elif record.media in HTML_TYPES:
                yield _page(data, where, unit)
            elif record.media in TEXT_TYPES:
                yield Raw(data, where)


def _warc(unit: Unit, path: str, name: str, limit: int) -> Iterator[Raw | Broken]:
    from fastwarc.warc import ArchiveIterator

    records = 0
    with streams.open_bytes(path) as stream:
        iterator = iter(ArchiveIterator(stream, parse_http=True, strict_mode=False))
        while True:
            try:
                record = next(iterator)
            except StopIteration:
                break
            except (OSError, ValueError, RuntimeError, EOFError, gzip.BadGzipFile) as error:
                yield Broken(
                    f"{name}@{records}", "broken-record", f"{type(error).__name__}: {error}".split("\n")[0]
                )
                break
            records += 1
            yield from _record(unit, record, f"{name}#{records}", limit)


def _record(unit: Unit, record: Any, origin: str, limit: int) -> Iterator[Raw | Broken]:
    kind = str(record.record_type)
    if kind not in RECORD_TYPES:
        return
    address = record.headers.get("WARC-Target-URI") or ""
    where = f"{origin} {address}".strip()
    declared = record.headers.get("Content-Length", "0")
    try:
        http = record.http_headers if record.is_http else None
        status = http.status_code if http is not None else 200
        media = (
            record.http_content_type if http is not None else record.headers.get("Content-Type", "")
        ) or ""
        media = media.split(";")[0].strip().lower()
        if (status is not None and status >= 400) or (media and media not in (*HTML_TYPES, *TEXT_TYPES)):
            return
        data = _inflated(record.reader.read(limit + 1), limit)
    except (OSError, ValueError, RuntimeError, EOFError) as error:
        yield Broken(where, "broken-record", f"{type(error).__name__}: {error}".split("\n")[0])
        return
    if len(data) > limit:
        yield Broken(where, "too-long", f"more than {limit} bytes", len(data))
    elif not data:
        if declared.strip() not in ("", "0"):
            yield Broken(where, "broken-record", "empty body", 0)
    elif media in HTML_TYPES or (not media and b"<" in data[:200]):
        yield _page(data, where, unit, str(record.http_charset or "") if record.is_http else "")
    else:
        yield Raw(data, where)
