"""What is worked out once and kept in the cache: columns, summary, diagnosis. Runs in a process of its own.

`python -m umsicht.dashboard.prepare` reads run folders from standard input, one a line, newest first, and says on standard output how far it
is. The server stays small and quick, and a crash here harms no page.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import orjson

from umsicht.dashboard import sidecar
from umsicht.dashboard.columns import Columns
from umsicht.dashboard.facts import diagnosis, load_json
from umsicht.dashboard.summary import summarise
from umsicht.dashboard.tail import Tail
from umsicht.record import atomic_json
from umsicht.record.manifest import read_manifest
from umsicht.record.metrics import spell
from umsicht.words import LANGUAGES, speaking

SUMMARY, DIAGNOSIS = "summary.json", "diagnosis.json"
SCHEMA = 2


def stamp(folder: Path) -> list[int]:
    """What the cached figures depend on: size and time of the metrics, time of the manifest."""
    made = [SCHEMA]
    for name in ("metrics.jsonl", "manifest.json"):
        path = folder / name
        about = path.stat() if path.exists() else None
        made += [about.st_size, about.st_mtime_ns] if about else [0, 0]
    return made


def cached(folder: Path, name: str) -> tuple[dict[str, Any] | None, bool]:
    """A cached file's content and whether it is up to date."""
    loaded = load_json(sidecar.cache_folder(folder) / name)
    if loaded is None or not isinstance(loaded.get("content"), dict) or loaded.get("stamp", [0])[0] != SCHEMA:
        return None, False
    return loaded["content"], loaded.get("stamp") == stamp(folder)


def keep(folder: Path, name: str, content: dict[str, Any], made_from: list[int]) -> None:
    """Write a cached file."""
    atomic_json(sidecar.cache_folder(folder) / name, {"stamp": made_from, "content": spell(content)})


def prepare(folder: Path) -> None:
    """Bring columns, summary and diagnosis of one run up to date."""
    manifest = read_manifest(folder) or {}
    made_from = stamp(folder)
    tail = Tail(folder / "metrics.jsonl")
    columns: Columns = tail.columns()
    tail.save()
    keep(folder, SUMMARY, summarise(columns, manifest), made_from)
    if not cached(folder, DIAGNOSIS)[1]:
        keep(folder, DIAGNOSIS, {lang: _in(lang, folder) for lang in LANGUAGES}, made_from)


def _in(lang: str, folder: Path) -> dict[str, Any] | None:
    with speaking(lang):
        return diagnosis(folder)


def main() -> None:
    """Prepare every folder named on standard input; one JSON line for each that is done."""
    folders = [Path(line) for line in sys.stdin.read().splitlines() if line]
    total = sum(_size(folder) for folder in folders) or 1
    done = 0
    for folder in folders:
        try:
            prepare(folder)
            error = ""
        except (OSError, ValueError) as problem:
            error = str(problem)
        done += _size(folder)
        print(
            orjson.dumps({"folder": str(folder), "done": done, "total": total, "error": error}).decode(),
            flush=True,
        )


def _size(folder: Path) -> int:
    path = folder / "metrics.jsonl"
    return path.stat().st_size if path.exists() else 0


if __name__ == "__main__":
    main()
