"""The launcher of one machine: starts the ranks, notices who falls or hangs, says so, and starts them again from the last whole checkpoint."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from umsicht.findings import Finding, UserError, render
from umsicht.findings.exits import FAILED, INTERRUPTED, SAVED, USAGE
from umsicht.record import Run
from umsicht.record.lock import FolderLock, LockedError
from umsicht.survive.falls import DELIBERATE, Fall, Same, deliberate_code, who_fell
from umsicht.survive.ranks import Ranks, Seats, free_port
from umsicht.survive.survival import Ledger
from umsicht.survive.watchdog import PATIENCE, Watchdog
from umsicht.survive.worker import RUN_VARIABLE, supervised_run
from umsicht.words import t

LOCK = "lock"
POLL_S = 0.05
GATHER_S = 0.4
"""After a first fall the others fall too, of broken connections: waited for this long, so that the right one is named."""
TIMEOUT_VARIABLE = "UMSICHT_STEP_TIMEOUT_S"


@dataclass(frozen=True)
class Conditions:
    """How a run is supervised. `grace_s`: how long ranks may take to save and leave after SIGTERM."""

    ranks: int = 1
    max_restarts: int = 100
    step_timeout_s: float = 300.0
    same_step_falls: int = 3
    grace_s: float = 120.0
    address: str = "127.0.0.1"


@dataclass(frozen=True)
class End:
    """How a start ended: with an exit code that is to be passed on, or with a fall."""

    code: int = 0
    fall: Fall | None = None


class StopSignals:
    """SIGTERM, SIGINT and SIGUSR1 to the launcher: passed on to the ranks once; a second Ctrl-C ends everything at once."""

    def __init__(self) -> None:
        self.received = 0
        self.hurry = False
        self._old: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        for number in (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGUSR1", None)):
            if number is not None:
                self._old[number] = signal.signal(number, self._handle)
        return self

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.hurry = self.hurry or bool(self.received and number == signal.SIGINT)
        self.received = self.received or number

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)


def environment_of(
    run_folder: Path, conditions: Conditions, environment: Mapping[str, str] | None
) -> dict[str, str]:
    """What every rank of a run is told."""
    return {
        **(os.environ if environment is None else environment),
        RUN_VARIABLE: str(run_folder.resolve()),
        # Later than the supervisor's own patience: it names the rank, a collective that gives up names nobody.
        TIMEOUT_VARIABLE: str(conditions.step_timeout_s * (max(PATIENCE.values()) + 2)),
    }


class Supervisor:
    """Runs `command` once per rank until the run has ended, with as many restarts as faults make necessary."""

    def __init__(
        self,
        command: Sequence[str],
        run_folder: Path,
        conditions: Conditions,
        *,
        say: Callable[[str], None],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.command = list(command)
        self.folder = run_folder
        self.conditions = conditions
        self.say = say
        self.environment = environment_of(run_folder, conditions, environment)
        self._same = Same(conditions.same_step_falls)
        self._restarts = 0

    def run(self) -> int:
        """Supervise to the end; the exit code. Raises UserError where another launcher is at work on this run."""
        lock = locked(self.folder)
        try:
            if lock.stale is not None:
                self.say(t("survive.stale_lock", host=lock.stale.host, pid=lock.stale.pid))
            with StopSignals() as stop:
                return self._supervise(stop)
        finally:
            lock.release()

    def _supervise(self, stop: StopSignals) -> int:
        ledger = Ledger(self.folder)
        try:
            return self._starts(ledger, stop)
        finally:
            sums = ledger.close()
            Run.open(self.folder).update_manifest(survival=sums)

    def _starts(self, ledger: Ledger, stop: StopSignals) -> int:
        while True:
            end = self._one_start(ledger, stop)
            if end.fall is None:
                ledger.event("end", code=end.code)
                return end.code
            if stop.received:
                return SAVED
            if (finding := self._enough(end.fall)) is not None:
                self._found(finding)
                Run.open(self.folder).update_manifest(
                    state="stopped", outcome={"reason": "crash-loop", "step": end.fall.step}
                )
                return FAILED
            self._wait(stop)

    def _one_start(self, ledger: Ledger, stop: StopSignals) -> End:
        number, folder = ledger.sums.starts, ledger.start_folder()
        seats = Seats(
            self.conditions.ranks,
            0,
            self.conditions.ranks,
            self.conditions.address,
            free_port(self.conditions.address),
        )
        ranks = Ranks(self.command, folder, seats, start=number, environment=self.environment)
        ledger.began()
        pids = {str(rank): ranks.pid(rank) for rank in seats.ranks}
        ledger.event("start", start=number, world=seats.world, host=socket.gethostname(), pids=pids)
        try:
            end = self._attend(ranks, ledger, stop)
        finally:
            ranks.kill()
        if end.fall is not None:
            ledger.event("fall", start=number, **end.fall.to_dict())
        ledger.ended(ranks.beats(), fell=end.fall is not None and not stop.received)
        ledger.close_start(folder)
        if end.fall is not None and not stop.received:
            self._found(end.fall.finding())
        return end

    def _attend(self, ranks: Ranks, ledger: Ledger, stop: StopSignals) -> End:
        """Watch a start until it ends."""
        watchdog = Watchdog(self.conditions.step_timeout_s)
        running = False
        leave_by: float | None = None
        while True:
            time.sleep(POLL_S)
            if stop.received and leave_by is None:
                leave_by = time.monotonic() + self.conditions.grace_s
                ranks.signal(stop.received)
            if stop.hurry or (leave_by is not None and time.monotonic() > leave_by):
                return End(code=INTERRUPTED if stop.received == signal.SIGINT else SAVED)
            beats = ranks.beats()
            if not running and all(beat.first_done_s for beat in beats.values()):
                running = True
                resumed = min(beat.resumed for beat in beats.values())
                ledger.first_step(resumed)
                ledger.event("running", resumed=resumed, after_s=time.monotonic() - ranks.began_s)
            if ranks.exits():
                return self._ended(ranks, stop)
            stall = watchdog.look(beats)
            if stall is not None and not stop.received:
                return End(fall=Fall.of_stall(stall, ranks))

    def _ended(self, ranks: Ranks, stop: StopSignals) -> End:
        """Some rank ended: all are about to, or one fell."""
        noticed = time.monotonic()
        limit = GATHER_S
        while time.monotonic() - noticed < limit:
            exits = ranks.exits()
            if len(exits) == self.conditions.ranks:
                break
            if all(code in DELIBERATE for code in exits.values()):
                limit = self.conditions.grace_s if set(exits.values()) != {USAGE} else 5.0
            else:
                limit = GATHER_S
            if stop.hurry:
                break
            time.sleep(POLL_S)
        exits = ranks.exits()
        if stop.received and any(code < 0 for code in exits.values()):
            return End(code=SAVED)  # told to stop before it could listen: nothing had been computed
        if all(code in DELIBERATE for code in exits.values()):
            return End(code=deliberate_code(exits))
        return End(fall=who_fell(ranks, exits))

    def _enough(self, fall: Fall) -> Finding | None:
        """The reason not to start again, if there is one."""
        if self._same.is_reached(fall):
            return fall.loop(self._same.count)
        if self._restarts >= self.conditions.max_restarts:
            return fall.too_many(self._restarts)
        self._restarts += 1
        return None

    def _wait(self, stop: StopSignals) -> None:
        """A moment's rest where falls follow each other at one step: the cause may pass."""
        until = time.monotonic() + (self._same.count - 1) * 1.0
        while time.monotonic() < until and not stop.received:
            time.sleep(POLL_S)

    def _found(self, finding: Finding) -> None:
        Run.open(self.folder).add_finding(finding.to_dict())
        words = render(finding)
        self.say(f"{words.title}. {words.seen}")


def locked(folder: Path) -> FolderLock:
    """The lock of a run, taken. Raises UserError where a living process holds it."""
    lock = FolderLock(folder / LOCK)
    try:
        return lock.take()
    except LockedError as error:
        raise taken(error, folder) from None


def taken(error: LockedError, folder: Path) -> UserError:
    """Who holds a run that this process wanted, for people."""
    holder = error.holder
    return UserError(
        t(
            "survive.locked",
            host=holder.host if holder else "?",
            pid=holder.pid if holder else "?",
            since=holder.since if holder else "?",
        ),
        where=str(folder),
        why=t("survive.locked_why"),
        fix=t("survive.locked_fix"),
    )


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold the run's lock in the block, unless the launcher that started this process holds it. Raises UserError where another process does."""
    if supervised_run() is not None:
        yield
        return
    lock = locked(folder)
    try:
        yield
    finally:
        lock.release()
