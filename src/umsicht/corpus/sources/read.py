"""Reading one unit: every member is either a raw document or a listed broken one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from umsicht.corpus.sources import files, starter, streams
from umsicht.corpus.sources.unit import Broken, Column, Raw, Unit
from umsicht.findings import UserError
from umsicht.words import t


def read_unit(unit: Unit, max_document_bytes: int) -> Iterator[Raw | Broken | Column]:
    """Raw documents and broken members of `unit`, in the order of its files, up to its limit.

    Raises UserError where a local file changed between planning and the end of reading.
    """
    given = 0
    for path, name in zip(unit.paths, unit.names, strict=True):
        before = _stamp(path)
        for item in _read_file(unit, path, name, max_document_bytes):
            yield item
            if isinstance(item, Raw):
                given += len(item.text)
            if unit.limit_bytes is not None and given >= unit.limit_bytes:
                return
        if _stamp(path) != before:
            raise UserError(
                t("corpus.changed.what", path=path),
                where=path,
                why=t("corpus.changed.why"),
                fix=t("corpus.changed.fix"),
            )


def _read_file(unit: Unit, path: str, name: str, limit: int) -> Iterator[Raw | Broken | Column]:
    try:
        if unit.reader in starter.READERS:
            yield from starter.READERS[unit.reader](Path(path), name)
        else:
            yield from files.READERS[unit.reader](unit, path, name, limit)
    except streams.STREAM_ERRORS as error:
        yield Broken(name, "unreadable", f"{type(error).__name__}: {error}".split("\n")[0])


def _stamp(path: str) -> tuple[int, int] | None:
    if streams.is_remote(path):
        return None
    try:
        stat = Path(path.removeprefix("file://")).stat()
    except OSError:
        return None
    return stat.st_size, stat.st_mtime_ns
