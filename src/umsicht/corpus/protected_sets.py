"""Finding and reading the protected sets that a recipe declares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from umsicht.corpus.protect import Piece, pieces_of_rows
from umsicht.corpus.sources import streams
from umsicht.corpus.sources.plan import walk
from umsicht.findings import UserError
from umsicht.recipe.corpus import ProtectedSettings, SourceSettings
from umsicht.record import file_digest
from umsicht.record.ids import content_id
from umsicht.words import t


@dataclass(frozen=True)
class Protected:
    """The declared sets with their files."""

    sets: tuple[ProtectedSettings, ...]
    files: tuple[tuple[tuple[str, str], ...], ...]
    """Path and name of every file, by set."""

    @property
    def works(self) -> tuple[str, ...]:
        """Names of the sets that are works under copyright."""
        return tuple(known.name for known in self.sets if known.kind == "work")

    def digests(self) -> dict[str, str]:
        """Content hashes: what enters the artifact's id."""
        return {
            f"file:protect:{known.name}": content_id([(name, file_digest(path)) for path, name in files])
            for known, files in zip(self.sets, self.files, strict=True)
        }

    def pieces(self) -> Iterator[Piece]:
        """All pieces of all sets. Raises UserError for a file without any."""
        for known, files in zip(self.sets, self.files, strict=True):
            for path, name in files:
                found = False
                for piece in pieces_of_rows(known.name, _rows(path, name), known.fields):
                    found = True
                    yield piece
                if not found:
                    raise UserError(
                        t("corpus.protect.empty.what", name=known.name),
                        where=path,
                        why=t("corpus.protect.empty.why", fields=", ".join(known.fields) or "*"),
                        fix=t("corpus.protect.empty.fix"),
                    )


def plan_protected(declared: tuple[ProtectedSettings, ...], root: Path) -> Protected:
    """Find the files of the declared sets. Raises UserError for a path that is not there."""
    files = []
    for known in declared:
        source = SourceSettings(name=known.name, path=known.path)
        files.append(tuple((path, name) for path, name, _ in walk(source, root)))
    return Protected(declared, tuple(files))


def _rows(path: str, name: str) -> Iterator[dict[str, Any]]:
    suffix = streams.plain_suffix(name)
    if suffix == ".parquet":
        import pyarrow.parquet as pq

        for batch in pq.ParquetFile(path).iter_batches(batch_size=1024):
            yield from batch.to_pylist()
        return
    with streams.open_bytes(path) as stream:
        if suffix in (".jsonl", ".ndjson"):
            for number, line in enumerate(stream, 1):
                if line.strip():
                    try:
                        row = orjson.loads(line)
                    except orjson.JSONDecodeError as error:
                        raise UserError(
                            t("corpus.protect.broken.what", name=name),
                            where=f"{path}:{number}",
                            why=str(error),
                            fix=t("corpus.protect.empty.fix"),
                        ) from error
                    yield row if isinstance(row, dict) else {"text": str(row)}
        else:
            yield {"id": name, "text": stream.read().decode("utf-8", "replace")}
