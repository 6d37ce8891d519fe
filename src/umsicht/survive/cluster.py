"""The launcher of a host among several: runs its ranks as the plan says; leads where it holds the run's lock."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from umsicht.findings import Finding, render
from umsicht.findings.exits import FAILED, INTERRUPTED, SAVED
from umsicht.record import Run
from umsicht.record.lock import FolderLock, LockedError
from umsicht.survive import hosts
from umsicht.survive.falls import DELIBERATE, Fall, Same, deliberate_code, who_fell
from umsicht.survive.hosts import Board, Card, Door, Member, Plan
from umsicht.survive.pulse import Beat
from umsicht.survive.ranks import Ranks, Seats, free_port
from umsicht.survive.supervisor import (
    GATHER_S,
    LOCK,
    Conditions,
    StopSignals,
    environment_of,
    taken,
)
from umsicht.survive.survival import STARTS, Ledger
from umsicht.survive.watchdog import Watchdog
from umsicht.words import t

CARD_S = 0.5
LOOP_S = 0.05
GATHER_HOSTS_S = 15.0
"""Once the smallest number of hosts is there, others are waited for this long."""
REPORTS_S = 2.0
"""After a first report of a stall: time for the other hosts to report theirs."""


@dataclass(frozen=True)
class Size:
    """How many hosts a job needs at least and takes at most."""

    least: int
    most: int


class ClusterSupervisor:
    """One of several launchers of a job. All of them see the run's folder."""

    def __init__(
        self,
        command: Sequence[str],
        run_folder: Path,
        conditions: Conditions,
        size: Size,
        *,
        say: Callable[[str], None],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.command = list(command)
        self.folder = run_folder
        self.conditions = conditions
        self.say = say
        self.environment = environment_of(run_folder, conditions, environment)
        name = hosts.interface_of(conditions.address)
        if name:
            for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
                self.environment.setdefault(variable, name)
        self.board = Board(run_folder / STARTS / "hosts")
        self.door = Door(conditions.address)
        self.card = hosts.me(conditions.address, self.door.port, conditions.ranks)
        self.leader = Leader(self, size)
        self._ranks: Ranks | None = None
        self._watchdog = Watchdog(conditions.step_timeout_s)
        self._ended_at: float | None = None
        self._left_card = 0.0

    def run(self) -> int:
        """Take part until the job has ended; its exit code. Raises UserError where this host has a launcher on this run already."""
        lock = hosts.host_lock(self.board.folder, self.card.name)
        try:
            lock.take()
        except LockedError as error:
            raise taken(error, self.folder) from None
        try:
            with StopSignals() as stop:
                return self._take_part(stop)
        finally:
            self._kill()
            self.leader.close()
            self.door.close()
            lock.release()
            with suppress(OSError):
                (self.board.folder / f"{self.card.name}.card").unlink()

    def _take_part(self, stop: StopSignals) -> int:
        leave_by: float | None = None
        while True:
            time.sleep(LOOP_S)
            self.door.answer()
            if stop.received and leave_by is None:
                leave_by = time.monotonic() + self.conditions.grace_s
                if self._ranks is None:
                    return SAVED
                self._ranks.signal(stop.received)
            if stop.hurry or (leave_by is not None and time.monotonic() > leave_by):
                return INTERRUPTED if stop.received == signal.SIGINT else SAVED
            self._look()
            self._leave_card()
            self.leader.lead(stopping=bool(stop.received))
            plan = self.board.plan()
            if plan is None:
                continue
            if plan.code is not None:
                if plan.start == self.card.start:
                    return plan.code
                continue  # that of an earlier job: the leader is about to write another
            if plan.start != self.card.start and not stop.received:
                self._follow(plan)

    def _look(self) -> None:
        """What the ranks of this host do, onto the card."""
        if self._ranks is None or self.card.state not in ("running", "stalled"):
            return
        beats = self._ranks.beats()
        furthest = max(beats.values(), key=lambda beat: (beat.step, beat.stepping_s))
        self.card.beat = asdict(furthest)
        self.card.stepping = all(beat.first_done_s for beat in beats.values())
        exits = self._ranks.exits()
        if exits:
            self._ended(self._ranks, exits)
        elif self.card.state == "running" and (stall := self._watchdog.look(beats)) is not None:
            self.card.state, self.card.fall = "stalled", Fall.of_stall(stall, self._ranks).to_dict()

    def _ended(self, ranks: Ranks, exits: Mapping[int, int]) -> None:
        self._ended_at = self._ended_at or time.monotonic()
        meant = all(code in DELIBERATE for code in exits.values())
        patience = self.conditions.grace_s if meant else GATHER_S
        if len(exits) < ranks.seats.here and time.monotonic() - self._ended_at < patience:
            return
        if meant:
            self.card.state, self.card.code = "ended", deliberate_code(exits)
        else:
            self.card.state, self.card.fall = "fell", who_fell(ranks, exits).to_dict()

    def _leave_card(self) -> None:
        if time.monotonic() - self._left_card >= CARD_S:
            self._left_card = time.monotonic()
            self.board.leave(self.card)

    def _follow(self, plan: Plan) -> None:
        """Begin the start that the plan names, or wait as a standby."""
        self._kill()
        self.card = replace(
            self.card, start=plan.start, state="waiting", code=0, beat={}, stepping=False, fall={}
        )
        member = plan.member(self.card.name)
        if member is not None:
            seats = Seats(plan.world, member.first, member.ranks, plan.members[0].address, plan.port)
            folder = self.folder / STARTS / f"start-{plan.start:05d}"
            self._ranks = Ranks(self.command, folder, seats, start=plan.start, environment=self.environment)
            self._watchdog = Watchdog(self.conditions.step_timeout_s)
            self._ended_at = None
            self.card.state = "running"
        self.board.leave(self.card)

    def _kill(self) -> None:
        if self._ranks is not None:
            self._ranks.kill()
            self._ranks = None


class Leader:
    """Decides for all hosts, as long as this one holds the run's lock."""

    def __init__(self, own: ClusterSupervisor, size: Size) -> None:
        self._own = own
        self._size = size
        self._lock = FolderLock(own.folder / LOCK)
        self._ledger: Ledger | None = None
        self._same = Same(own.conditions.same_step_falls)
        self._restarts = 0
        self._enough_since: float | None = None
        self._reported_at: float | None = None
        self._running = False
        self._outside: set[str] = set()

    @property
    def leads(self) -> bool:
        """True where this host holds the run's lock."""
        return self._ledger is not None

    def lead(self, *, stopping: bool) -> None:
        """One look at all hosts; a new plan where one is due."""
        if not self.leads and not self._begin():
            return
        board, cards = self._own.board, self._own.board.cards()
        plan = board.plan()
        if plan is None or plan.code is not None or not plan.members:
            if not stopping:
                self._gather(cards, plan.start + 1 if plan else 0)
            return
        self._note_first_step(plan, cards)
        fall = self._fall(plan, cards)
        if fall is not None and not stopping:
            self._start_again(plan, cards, fall)
            return
        ended = [cards.get(member.name) for member in plan.members]
        if all(c is not None and c.start == plan.start and c.state == "ended" for c in ended):
            codes = {n: card.code for n, card in enumerate(ended) if card is not None}
            self._end(plan, cards, deliberate_code(codes))

    def _begin(self) -> bool:
        try:
            self._lock.take()
        except LockedError:
            return False
        if self._lock.stale is not None:
            self._own.say(t("survive.stale_lock", host=self._lock.stale.host, pid=self._lock.stale.pid))
        self._ledger = Ledger(self._own.folder)
        plan = self._own.board.plan()
        if plan is not None and plan.code is None and plan.start != self._own.card.start:
            # Nobody led and we took no part: the plan of a job that was killed. Nobody is to follow it.
            self._own.board.announce(Plan(plan.start + 1))
        return True

    def _gather(self, cards: Mapping[str, Card], start: int) -> None:
        """Begin as soon as all hosts are there, or some time after enough are."""
        ready = [card for card in cards.values() if card.name not in self._outside]
        if len(ready) < self._size.least:
            self._enough_since = None
            return
        self._enough_since = self._enough_since or time.monotonic()
        if len(ready) < self._size.most and time.monotonic() - self._enough_since < GATHER_HOSTS_S:
            return
        self._announce(ready, start)

    def _announce(self, ready: Sequence[Card], start: int) -> None:
        assert self._ledger is not None
        own = self._own.card.name
        order = sorted(ready, key=lambda card: (card.name != own, card.name))[: self._size.most]
        members, first = [], 0
        for card in order:
            members.append(Member(card.name, card.address, card.ranks, first))
            first += card.ranks
        start = max(start, self._ledger.sums.starts)
        plan = Plan(start, tuple(members), free_port(self._own.conditions.address))
        self._ledger.sums.starts = start
        self._ledger.began()
        self._ledger.event("start", start=start, world=plan.world, hosts=[m.name for m in members])
        self._running, self._reported_at, self._enough_since = False, None, None
        self._own.board.announce(plan)

    def _note_first_step(self, plan: Plan, cards: Mapping[str, Card]) -> None:
        taking = [cards.get(member.name) for member in plan.members]
        if self._running or not all(c is not None and c.start == plan.start and c.stepping for c in taking):
            return
        assert self._ledger is not None
        self._running = True
        resumed = min(int(card.beat["resumed"]) for card in taking if card is not None)
        self._ledger.first_step(resumed)
        self._ledger.event("running", resumed=resumed, world=plan.world)

    def _fall(self, plan: Plan, cards: Mapping[str, Card]) -> Fall | None:
        """Why this start is over, once that is certain."""
        step = self._step(plan, cards)
        for member in plan.members:
            if member.name not in cards and self._own.board.silent_s(member.name) > hosts.SILENT_S:
                silent = self._own.board.silent_s(member.name)
                return Fall("host", member.first, step, "", member.name, "no sign of life", silent)
        now = [cards[m.name] for m in plan.members if m.name in cards and cards[m.name].start == plan.start]
        told = [Fall(**card.fall) for card in now if card.state in ("fell", "stalled")]
        if not told:
            return None
        self._reported_at = self._reported_at or time.monotonic()
        if time.monotonic() - self._reported_at < REPORTS_S:
            return None
        own_doing = [fall for fall in told if fall.kind != "network" and not fall.by_others]
        return own_doing[0] if own_doing else self._cut_off(plan, cards, told, step)

    def _cut_off(self, plan: Plan, cards: Mapping[str, Card], told: Sequence[Fall], step: int) -> Fall:
        """Nobody hangs by himself: which host cannot be reached from here?"""
        for member in plan.members:
            card = cards.get(member.name)
            if card is None or not hosts.is_reachable(card.address, card.port):
                silent = max(fall.silent_s for fall in told)
                return Fall("host", member.first, step, "communicate", member.name, "not reachable", silent)
        return told[0]

    @staticmethod
    def _step(plan: Plan, cards: Mapping[str, Card]) -> int:
        return max(
            (int(cards[m.name].beat.get("step", 0)) for m in plan.members if m.name in cards), default=0
        )

    def _beats(self, plan: Plan, cards: Mapping[str, Card]) -> dict[int, Beat]:
        return {
            m.first: Beat(**cards[m.name].beat)
            for m in plan.members
            if m.name in cards and cards[m.name].beat
        }

    def _start_again(self, plan: Plan, cards: Mapping[str, Card], fall: Fall) -> None:
        assert self._ledger is not None
        self._ledger.event("fall", start=plan.start, **fall.to_dict())
        self._ledger.ended(self._beats(plan, cards), fell=True)
        self._ledger.close_start(self._own.folder / STARTS / f"start-{plan.start:05d}")
        self._found(fall.finding())
        self._outside = {fall.host} if fall.kind == "host" else set()
        if self._same.is_reached(fall) and fall.kind != "host":
            self._found(fall.loop(self._same.count))
            self._end(plan, cards, FAILED, settled=True)
            return
        if self._restarts >= self._own.conditions.max_restarts:
            self._found(fall.too_many(self._restarts))
            self._end(plan, cards, FAILED, settled=True)
            return
        self._restarts += 1
        ready = [card for card in cards.values() if card.name not in self._outside]
        if len(ready) >= self._size.least:
            self._announce(ready, plan.start + 1)
        else:
            # Too few are left: everybody stops, and waits until enough are there.
            self._own.board.announce(Plan(plan.start + 1))

    def _end(self, plan: Plan, cards: Mapping[str, Card], code: int, *, settled: bool = False) -> None:
        assert self._ledger is not None
        if not settled:
            self._ledger.ended(self._beats(plan, cards), fell=False)
            self._ledger.close_start(self._own.folder / STARTS / f"start-{plan.start:05d}")
        self._ledger.event("end", code=code)
        self._own.board.announce(replace(plan, code=code))
        Run.open(self._own.folder).update_manifest(survival=self._ledger.close())

    def _found(self, finding: Finding) -> None:
        Run.open(self._own.folder).add_finding(finding.to_dict())
        words = render(finding)
        self._own.say(f"{words.title}. {words.seen}")

    def close(self) -> None:
        """Lead no more."""
        if self._ledger is not None:
            self._ledger.close()
        self._lock.release()
