"""Who hangs? Judged by what changes on the watcher's own monotonic clock, so that no clock of any rank or machine is trusted."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from umsicht.survive.pulse import Beat, Phase

PATIENCE: Mapping[Phase, float] = {"start": 10.0, "hooks": 10.0, "save": 10.0, "end": 10.0}
"""Phases that take long in a healthy run (imports, validation, writing): times the step timeout."""

PAUSE_S = 2.0
"""A gap between two looks of this many seconds was a pause of the watcher itself, and is held against nobody."""

Kind = Literal["frozen", "stuck", "network"]


@dataclass(frozen=True)
class Stall:
    """A rank that no longer gets on. `frozen`: the process is given no time or was stopped; `stuck`: it lives but its phase does not end;
    `network`: every rank waits for the others in a collective."""

    rank: int
    kind: Kind
    step: int
    phase: Phase
    silent_s: float


@dataclass
class _Seen:
    ticks: int
    beats: int
    tick_at: float
    beat_at: float


class Watchdog:
    """Looks at the beats of all ranks; `look` names the first one that stalls."""

    def __init__(self, timeout_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.timeout_s = timeout_s
        self._clock = clock
        self._seen: dict[int, _Seen] = {}
        self._last_look: float | None = None

    def look(self, beats: Mapping[int, Beat]) -> Stall | None:
        """The stall that is certain by now, or None."""
        now = self._clock()
        if self._last_look is not None and now - self._last_look > PAUSE_S:
            for seen in self._seen.values():
                seen.tick_at += now - self._last_look
                seen.beat_at += now - self._last_look
        self._last_look = now
        for rank, beat in beats.items():
            self._note(rank, beat, now)
        return self._frozen(beats, now) or self._stuck(beats, now)

    def _note(self, rank: int, beat: Beat, now: float) -> None:
        seen = self._seen.setdefault(rank, _Seen(beat.ticks, beat.beats, now, now))
        if beat.ticks != seen.ticks:
            seen.ticks, seen.tick_at = beat.ticks, now
        if beat.beats != seen.beats:
            seen.beats, seen.beat_at = beat.beats, now

    def _frozen(self, beats: Mapping[int, Beat], now: float) -> Stall | None:
        """The rank whose process has been silent longest, once that is longer than the timeout. One that starts imports: nothing else runs then."""
        silent = {rank: now - self._seen[rank].tick_at for rank in beats}
        rank = max(silent, key=lambda r: silent[r])
        beat = beats[rank]
        limit = self.timeout_s * (PATIENCE["start"] if beat.phase == "start" else 1.0)
        if silent[rank] <= limit:
            return None
        return Stall(rank, "frozen", beat.step, beat.phase, silent[rank])

    def _stuck(self, beats: Mapping[int, Beat], now: float) -> Stall | None:
        """Nobody gets on: whoever does not wait for the others is the one they wait for."""
        silent = {rank: now - self._seen[rank].beat_at for rank in beats}
        busy = [rank for rank in beats if beats[rank].phase != "communicate"]
        waited_for = min(busy or beats, key=lambda r: (beats[r].step, -silent[r]))
        beat = beats[waited_for]
        if silent[waited_for] <= self.timeout_s * PATIENCE.get(beat.phase, 1.0):
            return None
        kind: Kind = "stuck" if busy else "network"
        return Stall(waited_for, kind, beat.step, beat.phase, silent[waited_for])
