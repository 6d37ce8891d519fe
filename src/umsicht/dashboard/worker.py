"""Keeps one preparing process busy: asked for runs, it starts the process, follows its progress, and lets it end."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson

PAUSE_S = 15.0


class Worker:
    """`ask` queues run folders; the running process takes those known when it started, the next one the rest.

    A run that was just prepared is not prepared again for `PAUSE_S` seconds, however fast it grows.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[tuple[Path, str], None] = {}
        self._done_at: dict[tuple[Path, str], float] = {}
        self._busy = False
        self._process: subprocess.Popen[str] | None = None
        self._progress: dict[str, Any] = {"active": False, "done": 0, "total": 0, "left": 0}

    def ask(self, folders: Iterable[Path], lang: str = "") -> None:
        """Have these runs prepared, in this order; with their verdict too where `lang` names a language."""
        with self._lock:
            now = time.monotonic()
            for folder in folders:
                if now - self._done_at.get((folder, lang), -PAUSE_S) >= PAUSE_S:
                    self._waiting.setdefault((folder, lang))
            if self._waiting and not self._busy:
                self._busy = True
                threading.Thread(target=self._work, name="umsicht-prepare", daemon=True).start()

    def progress(self) -> dict[str, Any]:
        """Bytes done and in all, and how many runs are left."""
        with self._lock:
            return dict(self._progress)

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._waiting.clear()
            if self._process is not None:
                self._process.terminate()

    def _work(self) -> None:
        while True:
            with self._lock:
                wanted = list(self._waiting)
                self._waiting.clear()
                if not wanted:
                    self._busy = False
                    self._progress["active"] = False
                    return
                self._progress = {
                    "active": True,
                    "done": 0,
                    "total": 0,
                    "left": len({folder for folder, _ in wanted}),
                }
            self._follow(wanted)
            with self._lock:
                self._done_at.update(dict.fromkeys(wanted, time.monotonic()))

    def _follow(self, wanted: list[tuple[Path, str]]) -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", "umsicht.dashboard.prepare"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        with self._lock:
            self._process = process
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("".join(f"{lang}\t{folder}\n" for folder, lang in wanted))
        process.stdin.close()
        for line in process.stdout:
            self._note(line)
        process.wait()
        with self._lock:
            self._process = None

    def _note(self, line: str) -> None:
        try:
            about = orjson.loads(line)
        except ValueError:
            return
        with self._lock:
            left = max(0, self._progress["left"] - 1)
            self._progress |= {
                "done": about["done"],
                "total": about["total"],
                "left": left,
                "active": left > 0,
            }
