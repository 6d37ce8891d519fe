"""Planning: which files a source has, and how reading them is cut into units that can run apart."""

from __future__ import annotations

import codecs
import fnmatch
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from umsicht.corpus.sources import files, hub, starter, streams, web
from umsicht.corpus.sources.unit import SourceInfo, Unit
from umsicht.findings import UserError
from umsicht.recipe.corpus import CorpusSettings, SourceSettings
from umsicht.record import file_digest
from umsicht.record.ids import content_id
from umsicht.words import t

EXPANSION = 4.0
"""How much a compressed text file is taken to grow when partitions are planned."""


@dataclass(frozen=True)
class SourcePlan:
    """Everything that will be read, in the order of the recipe."""

    units: tuple[Unit, ...]
    missing_packages: tuple[str, ...]
    unread: tuple[str, ...]
    """Files that no reader knows; listed, never silently left out."""

    @property
    def sources(self) -> tuple[SourceInfo, ...]:
        """Sources in order, each once."""
        return tuple(dict.fromkeys(unit.source for unit in self.units))

    @property
    def bytes(self) -> int:
        """Bytes on disk."""
        return sum(unit.bytes for unit in self.units)

    def digests(self) -> dict[str, str]:
        """Content hash of each source's files: what enters the artifact's id."""
        found: dict[str, list[tuple[str, str]]] = {}
        seen: set[tuple[str, str]] = set()
        for unit in self.units:
            for path, name in zip(unit.paths, unit.names, strict=True):
                if (unit.source.name, path) not in seen:
                    seen.add((unit.source.name, path))
                    found.setdefault(unit.source.name, []).append((name, _digest(path)))
        return {f"source:{name}": content_id(sorted(entries)) for name, entries in found.items()}


def _digest(path: str) -> str:
    if Path(path).is_dir():
        inside = sorted(found for found in Path(path).rglob("*") if found.is_file())
        return content_id([(found.relative_to(path).as_posix(), file_digest(found)) for found in inside])
    if path.startswith(hub.ADDRESS):
        return path
    if not streams.is_remote(path):
        return file_digest(path.removeprefix("file://"))
    import fsspec

    system, inner = fsspec.core.url_to_fs(path)
    return f"{system.checksum(inner)}"


def plan_sources(settings: CorpusSettings, root: Path) -> SourcePlan:
    """Find the files of every source. Raises UserError for a path that is not there and for a source without any readable file."""
    units: list[Unit] = []
    missing: list[str] = []
    unread: list[str] = []
    for source in settings.sources:
        unknown: list[str] = []
        if source.kind == "starter":
            found, absent = starter.starter_units(source.name, source.parts, source.max_bytes)
            missing += absent
        elif source.kind == "huggingface":
            found = hub.hub_units(source, root)
        else:
            found, unknown = _file_units(source, root, settings.partition_bytes)
            unread += unknown
        if not found:
            _nothing(source, unknown)
        units += found
    return SourcePlan(tuple(units), tuple(missing), tuple(unread))


def _nothing(source: SourceSettings, unread: Sequence[str]) -> None:
    shown = ", ".join(unread[:3])
    raise UserError(
        t("corpus.nothing.what", source=source.name),
        where=source.path,
        why=t("corpus.nothing.unknown", files=shown) if shown else t("corpus.nothing.empty"),
        fix=t("corpus.nothing.fix"),
    )


def _file_units(source: SourceSettings, root: Path, partition: int) -> tuple[list[Unit], list[str]]:
    units: list[Unit] = []
    unknown: list[str] = []
    remaining = source.max_bytes
    web.check_extractor(source.name, source.extractor)
    info = SourceInfo(source.name, source.domain, source.language, source.licence)
    for path, name, size in walk(source, root):
        if not _wanted(name, source):
            continue
        reader = files.reader_of(name)
        if reader is None:
            unknown.append(name)
            continue
        if remaining is not None and remaining <= 0:
            break
        unit = Unit(
            info,
            reader,
            (path,),
            (f"{source.name}:{name}",),
            size,
            limit_bytes=remaining,
            text_field=source.text_field,
            language_field=source.language_field,
            licence_field=source.licence_field,
            separator=source.separator,
            options=(source.extractor,) if reader in ("html", "warc") else (),
        )
        units += _cut(unit, partition)
        if remaining is not None:
            remaining -= int(size * (EXPANSION if name.endswith(streams.COMPRESSIONS) else 1))
    return _join_small(units, partition), unknown


def _wanted(name: str, source: SourceSettings) -> bool:
    if source.include and not any(fnmatch.fnmatch(name, pattern) for pattern in source.include):
        return False
    return not any(fnmatch.fnmatch(name, pattern) for pattern in source.exclude)


def walk(source: SourceSettings, root: Path) -> list[tuple[str, str, int]]:
    """Path, relative name and size of every file, sorted by name; hidden ones are left out."""
    if streams.is_remote(source.path):
        return _walk_remote(source.path)
    base = (root / source.path.removeprefix("file://")).expanduser()
    if base.is_file():
        return [(str(base), _readable(Path(base.name)), base.stat().st_size)]
    if base.is_dir():
        found = [path for path in base.rglob("*") if path.is_file()]
        top = base
    else:
        top = Path(*_fixed_parts(base))
        pattern = str(base.relative_to(top))
        found = (
            [path for path in top.glob(pattern) if path.is_file()] if pattern != "." and top.is_dir() else []
        )
        if not found:
            raise UserError(
                t("corpus.absent.what", path=source.path),
                where=f"corpus.sources.{source.name}",
                why=t("corpus.absent.why", path=base),
                fix=t("corpus.absent.fix"),
            )
    named = [(path.relative_to(top), path) for path in found]
    return sorted(
        (str(path), _readable(name), path.stat().st_size)
        for name, path in named
        if not any(part.startswith(".") for part in name.parts)
    )


def _readable(name: Path) -> str:
    """The name as text; bytes that are no UTF-8 (some systems allow them in names) are written out."""
    return os.fsencode(name.as_posix()).decode("utf-8", "backslashreplace")


def _fixed_parts(path: Path) -> list[str]:
    fixed: list[str] = []
    for part in path.parts:
        if any(sign in part for sign in "*?["):
            break
        fixed.append(part)
    return fixed


def _walk_remote(address: str) -> list[tuple[str, str, int]]:
    import fsspec

    system, inner = fsspec.core.url_to_fs(address)
    try:
        entries = system.glob(inner, detail=True) if "*" in inner else system.find(inner, detail=True)
    except OSError as error:
        raise UserError(
            t("corpus.absent.what", path=address), where=address, why=str(error), fix=t("corpus.absent.fix")
        ) from error
    prefix = inner.split("*")[0].rpartition("/")[0] if "*" in inner else inner.rstrip("/")
    return sorted(
        (
            system.unstrip_protocol(name),
            name.removeprefix(prefix).lstrip("/") or name.rpartition("/")[2],
            int(entry.get("size") or 0),
        )
        for name, entry in entries.items()
        if entry.get("type") == "file"
    )


def _cut(unit: Unit, partition: int) -> list[Unit]:
    """Cut a large plain JSONL or Parquet file into ranges; everything else is read whole."""
    path = unit.paths[0]
    if unit.bytes <= 2 * partition or unit.limit_bytes is not None or streams.is_remote(path):
        return [unit]
    if unit.reader == "jsonl" and not path.lower().endswith(streams.COMPRESSIONS) and not _is_utf16(path):
        starts = _line_starts(Path(path), unit.bytes, partition)
        return [
            replace(unit, start=start, stop=stop, bytes=stop - start)
            for start, stop in zip(starts, [*starts[1:], unit.bytes], strict=True)
        ]
    if unit.reader == "parquet":
        import pyarrow.parquet as pq

        try:
            groups = pq.ParquetFile(path).num_row_groups
        except (OSError, ValueError):
            return [unit]
        step = max(1, int(groups * partition / unit.bytes))
        share = unit.bytes // max(groups, 1)
        return [
            replace(
                unit, start=first, stop=min(first + step, groups), bytes=share * min(step, groups - first)
            )
            for first in range(0, groups, step)
        ]
    return [unit]


def _is_utf16(path: str) -> bool:
    """Whether a file begins with a mark of UTF-16, in which a line end is no single byte."""
    with streams.open_bytes(path) as file:
        return file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def _line_starts(path: Path, size: int, step: int) -> list[int]:
    starts = [0]
    with path.open("rb") as file:
        while starts[-1] + step < size:
            file.seek(starts[-1] + step)
            while True:
                chunk = file.read(streams.CHUNK)
                end = chunk.find(b"\n")
                if end >= 0:
                    position = file.tell() - len(chunk) + end + 1
                    break
                if not chunk:
                    return starts
            if position >= size:
                break
            starts.append(position)
    return starts


def _join_small(units: list[Unit], partition: int) -> list[Unit]:
    """Put small whole files of one kind together, so that a folder of many files is few units."""
    joined: list[Unit] = []
    group: list[Unit] = []
    kind, size = None, 0
    for unit in units:
        own = replace(unit, paths=(), names=(), bytes=0)
        if group and (own != kind or size + unit.bytes > partition):
            joined.append(_joined(group))
            group, size = [], 0
        group.append(unit)
        kind, size = own, size + unit.bytes
    return [*joined, _joined(group)] if group else joined


def _joined(group: list[Unit]) -> Unit:
    if len(group) == 1:
        return group[0]
    return replace(
        group[0],
        paths=tuple(path for unit in group for path in unit.paths),
        names=tuple(name for unit in group for name in unit.names),
        bytes=sum(unit.bytes for unit in group),
    )
