"""One build: the order of the stages, and what one hands to the next."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from umsicht.corpus import exact, finish, independence, lines, read
from umsicht.corpus.context import Context
from umsicht.corpus.document import DROPPED_SCHEMA, SCHEMA, write_table
from umsicht.corpus.finish import Decisions
from umsicht.corpus.near import documents, paragraphs
from umsicht.corpus.report import make_report
from umsicht.corpus.work import Result


def run(context: Context, folder: Path) -> dict[str, Any]:
    """All stages, then the files into the artifact's folder; returns the report."""
    read.protect(context)
    prepared, partitions = read.run(context)
    same = exact.run(context, partitions)
    near = documents.run(context, partitions, same)
    boilerplate = lines.run(context, partitions)
    repeated = paragraphs.run(context, partitions)
    finished = finish.run(context, partitions, Decisions(same, near, boilerplate, repeated))
    left = independence.run(context, partitions, finished)
    _move(context, prepared, finished, left, folder)
    return make_report(context, partitions, prepared, finished)


def _move(
    context: Context,
    prepared: Sequence[Result],
    finished: Sequence[Result],
    left: Sequence[Path],
    folder: Path,
) -> None:
    """Parts of every split under numbers; a split without any gets an empty one."""
    read_folder, written = context.work.stage("read"), context.work.stage("write")
    files = {
        split: [written / result["files"][split] for result in finished if result["files"][split]]
        for split in ("train", "val", "dropped")
    }
    dropped = [read_folder / result["dropped"] for result in prepared if result["dropped"]]
    files["dropped"] = [*dropped, *files["dropped"], *left]
    for split, paths in files.items():
        target = folder / split
        target.mkdir()
        for number, path in enumerate(paths):
            (target / f"part-{number:05d}.parquet").hardlink_to(path)
        if not paths:
            schema = DROPPED_SCHEMA if split == "dropped" else SCHEMA
            write_table(schema.empty_table(), target / "part-00000.parquet")
