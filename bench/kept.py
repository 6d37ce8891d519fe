"""Trainings that were made are kept, so that hours of them may be run in pieces; one whose code, data or order changed is made anew."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from pathlib import Path

from umsicht.record import content_id, file_digest


def code_id(paths: Iterable[Path]) -> str:
    """One id for everything in these files and folders that is Python."""
    files = [file for path in paths for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]
    return content_id([file_digest(str(file)) for file in files])


class Kept:
    """Answers by what was asked, one JSON line each; a torn last line is passed over."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._answers: dict[str, dict[str, float]] = {}
        for line in path.read_text().splitlines() if path.is_file() else ():
            try:
                row = json.loads(line)
            except ValueError:
                continue
            self._answers[row["key"]] = row["answer"]

    def get(self, key: str) -> dict[str, float] | None:
        """The answer, if it was given before."""
        return self._answers.get(key)

    def put(self, key: str, answer: dict[str, float], said: dict[str, object]) -> None:
        """Keep an answer; `said` makes the line readable."""
        with self._lock:
            self._answers[key] = answer
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a") as file:
                file.write(json.dumps({"key": key, "asked": said, "answer": answer}) + "\n")
