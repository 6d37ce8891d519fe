"""A fork server: each case runs in a child of a process that has torch loaded, so that a patch never outlives its case."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Only what hangs is ended: on a machine shared with others a case may take twenty times its own time.
LIMIT_S = 1800

Answer = dict[str, Any]
Task = tuple[str, Callable[..., Answer], tuple[Any, ...]]


@dataclass
class Child:
    """One running case."""

    name: str
    pid: int
    scratch: tempfile.TemporaryDirectory[str]
    begun: float = field(default_factory=time.monotonic)

    def finished(self) -> bool:
        """Whether it has ended; one that takes too long is ended."""
        done, _ = os.waitpid(self.pid, os.WNOHANG)
        if done:
            return True
        if time.monotonic() - self.begun > LIMIT_S:
            os.kill(self.pid, 9)
            os.waitpid(self.pid, 0)
            return True
        return False

    def answer(self) -> Answer:
        """What it wrote; a child that died or hung is an answer too."""
        path = Path(self.scratch.name, "answer.json")
        late = time.monotonic() - self.begun > LIMIT_S
        found: Answer = (
            json.loads(path.read_text())
            if path.is_file()
            else {"named": [], "error": "took too long" if late else "the process died"}
        )
        self.scratch.cleanup()
        return {"seconds": time.monotonic() - self.begun, **found}


def start(name: str, work: Callable[..., Answer], arguments: tuple[Any, ...]) -> Child:
    """Fork and run `work(*arguments, folder)`; its JSON answer lies in the folder."""
    scratch = tempfile.TemporaryDirectory(prefix="umsicht-fault-")
    folder = Path(scratch.name)
    child = os.fork()
    if child:
        return Child(name, child, scratch)
    try:
        sys.stdout = sys.stderr = (folder / "log").open("w")
        answer = work(*arguments, folder)
    except BaseException:
        answer = {"named": [], "error": traceback.format_exc()[-900:]}
    (folder / "writing").write_text(json.dumps(answer))
    (folder / "writing").rename(folder / "answer.json")
    os._exit(0)


def serve(tasks: Iterable[Task], jobs: int = 1) -> Iterator[tuple[str, Answer]]:
    """Run all tasks, `jobs` at a time; answers come as they end. A task is taken from `tasks` only when its turn has come."""
    waiting = iter(tasks)
    running: list[Child] = []
    more = True
    while more or running:
        while more and len(running) < jobs:
            task = next(waiting, None)
            more = task is not None
            if task is not None:
                running.append(start(*task))
        ended = [child for child in running if child.finished()]
        running = [child for child in running if child not in ended]
        for child in ended:
            yield child.name, child.answer()
        if not ended:
            time.sleep(0.05)


def forked(work: Callable[..., Answer], *arguments: Any) -> Answer:
    """One task alone."""
    return next(iter(serve([("", work, arguments)])))[1]
