"""The work folder of one build: every finished task leaves a result, and a task with a result is not run again.

It stands beside the artifacts under the id of the artifact that is being made, so that another recipe never meets it, and is removed when the
artifact is whole.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import orjson

from umsicht.corpus.engine import Engine
from umsicht.record import Progress, atomic_json, short
from umsicht.record.files import sweep_temporaries

Task = TypeVar("Task")
Result = dict[str, Any]


class Workspace:
    """`<store>/work/<name>-<id12>/`."""

    def __init__(self, root: Path, name: str, identity: str) -> None:
        self.folder = root / "work" / f"{name}-{short(identity)}"
        self.folder.mkdir(parents=True, exist_ok=True)
        sweep_temporaries(self.folder)

    def stage(self, name: str) -> Path:
        """The folder of one stage."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        sweep_temporaries(folder)
        return folder

    def run(
        self,
        engine: Engine,
        name: str,
        function: Callable[[Task], Result],
        tasks: Sequence[Task],
        progress: Progress,
        title: str = "",
        sizes: Sequence[float] | None = None,
        only: Sequence[int] | None = None,
    ) -> list[Result]:
        """Results of all tasks in order; those of an earlier, interrupted build are read back.

        `sizes` are the units that progress counts in (megabytes); none: one a task. `only` does just these tasks.
        """
        folder = self.stage(name)
        results: dict[int, Result] = {}
        left: list[int] = []
        wanted = list(range(len(tasks))) if only is None else list(only)
        for number in wanted:
            found = _read(folder / f"{number:05d}.json")
            if found is None:
                left.append(number)
            else:
                results[number] = found
        weights = list(sizes) if sizes is not None else [1.0] * len(tasks)
        progress.stage(title or name, sum(weights[n] for n in wanted), "MB" if sizes is not None else "")
        progress.advance(sum(weights[number] for number in results))
        for position, result in engine.run(function, [tasks[number] for number in left]):
            number = left[position]
            atomic_json(folder / f"{number:05d}.json", result)
            results[number] = result
            progress.advance(weights[number])
        progress.close()
        return [results[number] for number in wanted]

    def remove(self) -> None:
        """Delete the folder: its artifact is whole."""
        shutil.rmtree(self.folder, ignore_errors=True)
        parent = self.folder.parent
        if parent.is_dir() and not any(parent.iterdir()):
            parent.rmdir()


def _read(path: Path) -> Result | None:
    try:
        loaded: Result = orjson.loads(path.read_bytes())
    except (FileNotFoundError, orjson.JSONDecodeError):
        return None
    return loaded
