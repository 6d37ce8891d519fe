"""The heartbeat of a rank: step and phase in a small mapped file that its supervisor reads without asking.

A write is a few bytes into memory, so that it costs nothing at thousands of steps a second, and it is there for the supervisor even when the
rank hangs, is stopped or was killed. Two counters tell two illnesses apart: `ticks` grow while the process is given time at all (a thread
of its own), `beats` grow while the loop gets on. All times are of the monotonic clock: a jump of the system clock is not seen here.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

Phase = Literal["start", "data", "compute", "communicate", "update", "hooks", "save", "end"]
PHASES: tuple[Phase, ...] = get_args(Phase)
PATH_VARIABLE = "UMSICHT_PULSE"
TICK_S = 0.25

_LAYOUT = struct.Struct("<QQQqqqQdd")
SIZE = _LAYOUT.size


@dataclass(frozen=True)
class Beat:
    """What a rank last said of itself. `step` is the one in progress (0 before the first), `done` the last one finished in this start.

    `resumed` is the step this start went on from (-1: not known yet); `first_done_s` is the monotonic time of the first
    finished step (0: none yet), `stepping_s` the seconds spent in finished steps.
    """

    pid: int = 0
    ticks: int = 0
    beats: int = 0
    step: int = 0
    done: int = 0
    resumed: int = -1
    phase: Phase = "start"
    first_done_s: float = 0.0
    stepping_s: float = 0.0


def read(path: Path) -> Beat:
    """The beat in a file; an empty one where the rank has not begun to beat."""
    try:
        data = path.read_bytes()
    except OSError:
        return Beat()
    if len(data) < SIZE:
        return Beat()
    pid, ticks, beats, step, done, resumed, phase, first, stepping = _LAYOUT.unpack(data[:SIZE])
    return Beat(pid, ticks, beats, step, done, resumed, PHASES[phase % len(PHASES)], first, stepping)


class Pulse:
    """Writes the beats of this process."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(SIZE))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), SIZE)
        self._lock = threading.Lock()
        self._ticks = self._beats = 0
        self._step = self._done = 0
        self._resumed = -1
        self._phase: Phase = "start"
        self._first = self._stepping = 0.0
        self._began = time.monotonic()
        self._write()
        threading.Thread(target=self._tick, name="umsicht-pulse", daemon=True).start()

    def at(self, phase: Phase) -> Phase:
        """The loop enters `phase`; returns the one it leaves."""
        before, self._phase = self._phase, phase
        self._beats += 1
        self._write()
        return before

    def begin(self, step: int) -> None:
        """Step number `step` (counted from 1) begins with its data."""
        self._step, self._began = step, time.monotonic()
        self.at("data")

    def done(self, step: int) -> None:
        """Step number `step` is over, its checkpoint included."""
        now = time.monotonic()
        self._done = step
        self._first = self._first or now
        self._stepping += now - self._began
        self._beats += 1
        self._write()

    def resumed(self, step: int) -> None:
        """This start goes on after `step` finished steps."""
        self._resumed = self._step = step
        self._beats += 1
        self._write()

    def _tick(self) -> None:
        while True:
            time.sleep(TICK_S)
            self._ticks += 1
            self._write()

    def _write(self) -> None:
        with self._lock, contextlib.suppress(ValueError):
            _LAYOUT.pack_into(
                self._memory,
                0,
                os.getpid(),
                self._ticks,
                self._beats,
                self._step,
                self._done,
                self._resumed,
                PHASES.index(self._phase),
                self._first,
                self._stepping,
            )


_pulse: Pulse | None = None


def start() -> bool:
    """Begin to beat where a supervisor asked for it (`UMSICHT_PULSE` names the file); True where it did."""
    global _pulse
    path = os.environ.get(PATH_VARIABLE, "")
    if path and _pulse is None:
        _pulse = Pulse(Path(path))
    return _pulse is not None


def at(phase: Phase) -> Phase:
    """Enter `phase`; returns the one left. Nothing happens in a process that nobody supervises."""
    return _pulse.at(phase) if _pulse else "start"


def begin(step: int) -> None:
    """Step number `step` (counted from 1) begins."""
    if _pulse:
        _pulse.begin(step)


def done(step: int) -> None:
    """Step number `step` is over."""
    if _pulse:
        _pulse.done(step)


def resumed(step: int) -> None:
    """This start goes on after `step` finished steps."""
    if _pulse:
        _pulse.resumed(step)
