"""Hosts of one job find each other in the run's folder, which all of them see: it outlives every machine and every network.

Each launcher writes a card with a counter that grows, and reads the others'. A card whose counter stands still, by the reader's own clock, is that of a
dead host; no clock of another machine is compared. The holder of the run's lock leads: it writes the plan, which says who takes part in
which start and where the ranks meet. When the leader dies the kernel opens the lock, and the next host leads on from the same plan.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from umsicht.record import atomic_write
from umsicht.record.lock import FolderLock

SILENT_S = 10.0
"""A host whose card has not changed for so long is gone."""
PROBE_S = 2.0


@dataclass(frozen=True)
class Member:
    """A host in a start: its name, where it is reached, how many ranks it runs, the first of them."""

    name: str
    address: str
    ranks: int
    first: int


@dataclass(frozen=True)
class Plan:
    """Who takes part in start number `start`, and where its ranks meet. `code` is set once the job has ended."""

    start: int
    members: tuple[Member, ...] = ()
    port: int = 0
    code: int | None = None

    @property
    def world(self) -> int:
        """Ranks in all."""
        return sum(member.ranks for member in self.members)

    def member(self, name: str) -> Member | None:
        """The entry of a host, if it takes part."""
        return next((member for member in self.members if member.name == name), None)


@dataclass
class Card:
    """What a host says of itself. `state` of its ranks in start `start`: waiting, running, fell, stalled, ended."""

    name: str
    address: str
    port: int
    ranks: int
    pid: int = 0
    counter: int = 0
    start: int = -1
    state: str = "waiting"
    code: int = 0
    beat: dict[str, Any] = field(default_factory=dict)
    stepping: bool = False
    fall: dict[str, Any] = field(default_factory=dict)


class Board:
    """The folder in which hosts leave their cards, and the plan."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.folder = folder
        self._clock = clock
        self._marks: dict[str, tuple[int, int]] = {}
        self._first: dict[str, float] = {}
        self._changed: dict[str, float] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def leave(self, card: Card) -> None:
        """Write a host's card, its counter one higher."""
        card.counter += 1
        _replace(self.folder / f"{card.name}.card", asdict(card))

    def cards(self) -> dict[str, Card]:
        """The cards of hosts that live."""
        now = self._clock()
        found = {}
        for path in self.folder.glob("*.card"):
            plain = _read(path)
            if plain is None:
                continue
            card = Card(**plain)
            mark = (card.pid, card.counter)
            # A card that was there before us may be a dead host's: it counts once it changes.
            if self._marks.setdefault(card.name, mark) != mark:
                self._marks[card.name], self._changed[card.name] = mark, now
            self._first.setdefault(card.name, now)
            if card.name in self._changed and now - self._changed[card.name] < SILENT_S:
                found[card.name] = card
        return found

    def silent_s(self, name: str) -> float:
        """Seconds since a host's card last changed, or since we first looked for it."""
        now = self._clock()
        return now - self._changed.get(name, self._first.setdefault(name, now))

    def plan(self) -> Plan | None:
        """The plan in force, or None before the first."""
        plain = _read(self.folder / "plan.json")
        if plain is None:
            return None
        members = tuple(Member(**member) for member in plain.pop("members"))
        return Plan(members=members, **plain)

    def announce(self, plan: Plan) -> None:
        """Put a plan in force."""
        _replace(self.folder / "plan.json", asdict(plan))


def _read(path: Path) -> dict[str, Any] | None:
    try:
        loaded = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None
    return loaded if isinstance(loaded, dict) else None


def _replace(path: Path, plain: dict[str, Any]) -> None:
    """A network file system that is away for a moment costs a card, not the job."""
    with suppress(OSError):
        atomic_write(path, orjson.dumps(plain))


class Door:
    """A port that answers as long as the launcher lives: whether two hosts can reach each other is asked, not guessed."""

    def __init__(self, address: str) -> None:
        self._socket = socket.create_server((address, 0), backlog=16)
        self._socket.setblocking(False)
        self.port = int(self._socket.getsockname()[1])

    def answer(self) -> None:
        """Let those in who knocked."""
        with suppress(BlockingIOError, OSError):
            while True:
                self._socket.accept()[0].close()

    def close(self) -> None:
        """Answer no more."""
        self._socket.close()


def is_reachable(address: str, port: int, timeout_s: float = PROBE_S) -> bool:
    """True where a host's door opens within the time."""
    try:
        with socket.create_connection((address, port), timeout=timeout_s):
            return True
    except OSError:
        return False


def own_address() -> str:
    """The address other hosts reach this one by: that of the interface with the default route."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("10.255.255.255", 9))  # nothing is sent: only a route is looked up
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def interface_of(address: str) -> str:
    """Name of the network interface that has `address`; empty where the system does not tell."""
    try:
        import fcntl
    except ImportError:
        return ""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with suppress(OSError):
                answer = fcntl.ioctl(probe.fileno(), 0x8915, name.encode()[:15].ljust(256, b"\0"))
                if socket.inet_ntoa(answer[20:24]) == address:
                    return name
    return ""


def host_lock(folder: Path, name: str) -> FolderLock:
    """One launcher a host and run."""
    return FolderLock(folder / f"{name}.lock")


def host_name() -> str:
    """This machine's name; UMSICHT_HOST where the system's own is not unique (containers from one image)."""
    return os.environ.get("UMSICHT_HOST") or socket.gethostname()


def me(address: str, port: int, ranks: int) -> Card:
    """The card of this host."""
    return Card(host_name(), address, port, ranks, pid=os.getpid())
