"""When checkpoints are due, who writes them, and what happens when that fails."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path
from typing import Any

from umsicht.findings import Finding, render
from umsicht.recipe.train import CheckpointSettings
from umsicht.record import Progress, Run
from umsicht.train import checkpoints
from umsicht.train.checkpoints import Retention
from umsicht.train.hooks import StopRun


class Saver:
    """Writes snapshots, in the background where asked: training waits for the copy, not for the disk."""

    def __init__(self, run: Run, settings: CheckpointSettings, progress: Progress) -> None:
        self._run = run
        self._settings = settings
        self._progress = progress
        self._retention = Retention(settings.keep_last, settings.keep_best, settings.keep_every_steps)
        self._prunes = True
        self._thread: threading.Thread | None = None
        self._failure: OSError | None = None
        self._last_step = 0
        self._needed_bytes = 0
        self._last_tokens = 0
        self._last_time = time.monotonic()

    def resumed_at(self, step: int, tokens: int) -> None:
        """The run goes on from a checkpoint: intervals count from there."""
        self._last_step, self._last_tokens, self._last_time = step, tokens, time.monotonic()

    def due(self, step: int, tokens: int) -> bool:
        """True where an interval in steps, tokens or minutes has passed."""
        s = self._settings
        by_steps = s.every_steps is not None and step // s.every_steps > self._last_step // s.every_steps
        by_tokens = (
            s.every_tokens is not None and tokens // s.every_tokens > self._last_tokens // s.every_tokens
        )
        by_time = s.every_minutes is not None and time.monotonic() - self._last_time >= 60 * s.every_minutes
        return by_steps or by_tokens or by_time

    def take(self, carried: Any, row: dict[str, Any]) -> Any:
        """A copy of the run's state to write: whole here, this rank's part in a sharded saver."""
        return carried.snapshot(row)

    def save(self, snapshot: Any, *, wait: bool = False, beside: bool = False) -> Path:
        """Write `snapshot`; the path it has, or will have, under its final name. Raises StopRun where the recipe says so.

        `beside` the others: none of them goes for it. After an alarm it is not known yet which of them are sound.
        """
        self._join()
        self._prunes = not beside
        self._last_step, self._last_tokens, self._last_time = snapshot.step, snapshot.tokens, time.monotonic()
        self._needed_bytes = _size_of(snapshot)
        if self._settings.asynchronous and not wait:
            self._thread = threading.Thread(target=self._write, args=(snapshot,), name="umsicht-checkpoint")
            self._thread.start()
        else:
            self._write(snapshot)
            self._report()
        return self._run.checkpoints / checkpoints.folder_name(snapshot.step)

    def close(self) -> None:
        """Wait for the write in flight."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._failure is not None:
            self._record(self._failure)
            self._failure = None

    def _join(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._report()

    def _write(self, snapshot: Any) -> None:
        try:
            checkpoints.save(self._run, snapshot)
            self._prune()
        except OSError as error:
            self._failure = error

    def _prune(self) -> None:
        if self._prunes:
            checkpoints.prune(self._run, self._retention)

    def _report(self) -> None:
        if self._failure is None:
            return
        finding = self._record(self._failure)
        self._failure = None
        if self._settings.stop_when_full:
            raise StopRun(finding)

    def _record(self, error: OSError) -> Finding:
        grade = "stop" if self._settings.stop_when_full else "warn"
        path = error.filename or self._run.checkpoints / checkpoints.folder_name(self._last_step)
        finding = Finding(
            "CHECKPOINT/not-written",
            grade,  # type: ignore[arg-type]  # one of two literals
            "train",
            str(path),
            {
                "step": self._last_step,
                "error": error.strerror or str(error),
                "needed_bytes": self._needed_bytes,
                "free_bytes": _free_bytes(self._run.checkpoints),
            },
        )
        self._run.add_finding(finding.to_dict())
        self._progress.note(render(finding).seen + f" ({path})")
        return finding


def _size_of(snapshot: Any) -> int:
    """Bytes of the tensors of a snapshot."""
    parts = (getattr(snapshot, "model", None), getattr(snapshot, "optimizer", None))
    return sum(one.numel() * one.element_size() for part in parts if part for one in part.values())


def _free_bytes(folder: Path) -> int:
    """Free bytes of the disk that `folder` lies on; 0 where it cannot say."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0
