"""What is worked out once and kept in the cache: columns, summary, diagnosis. Runs in a process of its own.

`python -m umsicht.dashboard.prepare` reads from standard input which runs are wanted, newest first, and says on standard output how far it is. The server stays small and quick, and a crash here harms no page.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from umsicht.dashboard import sidecar
from umsicht.dashboard.facts import diagnosis, load_json
from umsicht.dashboard.summary import summarise
from umsicht.dashboard.tail import Tail
from umsicht.record import atomic_json
from umsicht.record.columns import Columns
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


def prepare(folder: Path, langs: Iterable[str] = LANGUAGES) -> None:
    """Bring columns, summary and diagnosis of one run up to date."""
    prepare_columns(folder)
    prepare_diagnosis(folder, langs)


def prepare_columns(folder: Path) -> None:
    """Columns and summary."""
    manifest = read_manifest(folder) or {}
    made_from = stamp(folder)
    tail = Tail(folder / "metrics.jsonl")
    columns: Columns = tail.columns()
    tail.save()
    keep(folder, SUMMARY, summarise(columns, manifest), made_from)


def prepare_diagnosis(folder: Path, langs: Iterable[str]) -> None:
    """The verdict in each of `langs`; one that is up to date stays."""
    made_from = stamp(folder)
    known, is_fresh = cached(folder, DIAGNOSIS)
    made = dict(known or {}) if is_fresh else {}
    wanted = [lang for lang in langs if lang not in made]
    columns = Tail(folder / "metrics.jsonl").columns() if wanted else None
    for lang in wanted:
        with speaking(lang):
            made[lang] = diagnosis(folder, columns) if columns is not None else None
    if wanted:
        keep(folder, DIAGNOSIS, made, made_from)


def main() -> None:
    """Prepare what standard input names, a language (or nothing), a tab and a folder a line: first all columns, then all verdicts.

    One JSON line on standard output for each run that is done.
    """
    with contextlib.suppress(OSError, AttributeError):
        os.nice(5)  # the pages come first
    asked = [line.split("\t", 1) for line in sys.stdin.read().splitlines() if "\t" in line]
    folders = list(dict.fromkeys(Path(folder) for _, folder in asked))
    total = sum(_size(folder) for folder in folders) or 1
    done = 0
    for folder in folders:
        _guarded(partial(prepare_columns, folder))
        done += _size(folder)
        print(orjson.dumps({"done": done, "total": total}).decode(), flush=True)
    for lang, name in asked:
        if lang:
            _guarded(partial(prepare_diagnosis, Path(name), [lang]))


def _guarded(task: Callable[[], None]) -> None:
    """One unreadable run must not keep the others waiting."""
    try:
        task()
    except (OSError, ValueError) as problem:
        print(problem, file=sys.stderr)


def _size(folder: Path) -> int:
    path = folder / "metrics.jsonl"
    return path.stat().st_size if path.exists() else 0


if __name__ == "__main__":
    main()
