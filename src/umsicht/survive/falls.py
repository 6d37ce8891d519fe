"""Falls: which rank, where, why, in which phase of which step; and when falling has become a loop."""

from __future__ import annotations

import signal
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from umsicht.findings import Finding
from umsicht.findings.exits import GUARD, INTERRUPTED, OK, SAVED, USAGE
from umsicht.survive.ranks import Ranks
from umsicht.survive.watchdog import Stall

DELIBERATE = (USAGE, GUARD, INTERRUPTED, SAVED, OK)
"""Exit codes that were meant, the worst first."""


@dataclass(frozen=True)
class Fall:
    """Why a start ended before its time. `kind`: died, frozen, stuck, network, host."""

    kind: str
    rank: int
    step: int
    phase: str
    host: str = ""
    reason: str = ""
    silent_s: float = 0.0
    stack: str = ""

    @classmethod
    def of_stall(cls, stall: Stall, ranks: Ranks) -> Fall:
        """A stall, with the stack of the rank that hangs."""
        stopped = ranks.is_stopped(stall.rank)
        return cls(
            kind=stall.kind,
            rank=stall.rank,
            step=stall.step,
            phase=stall.phase,
            host=socket.gethostname(),
            reason="SIGSTOP" if stopped else "",
            silent_s=stall.silent_s,
            stack=ranks.stack(stall.rank),
        )

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)

    @property
    def by_others(self) -> bool:
        """True where the rank fell because its connections broke: the cause is elsewhere."""
        return self.kind == "died" and _of_connection(self.reason)

    def _numbers(self) -> dict[str, Any]:
        return {
            "rank": self.rank,
            "host": self.host,
            "step": self.step,
            "phase": self.phase,
            "reason": self.reason or "—",
            "silent_s": round(self.silent_s, 1),
        }

    def finding(self) -> Finding:
        """The fall in words; the innermost lines of the stack as example."""
        name = {
            "died": "SURVIVE/rank-died",
            "frozen": "SURVIVE/rank-frozen",
            "stuck": "SURVIVE/rank-stuck",
            "network": "SURVIVE/network-silent",
            "host": "SURVIVE/host-lost",
        }[self.kind]
        lines = tuple(line.strip() for line in self.stack.splitlines() if line.strip().startswith("File"))
        return Finding(name, "warn", "train", self._where(), self._numbers(), examples=lines[:3])

    def _where(self) -> str:
        return f"rank {self.rank}@{self.host}"

    def loop(self, count: int) -> Finding:
        """The finding that ends the run: it always falls at this step."""
        return Finding(
            "SURVIVE/crash-loop", "stop", "train", self._where(), {**self._numbers(), "count": count}
        )

    def too_many(self, count: int) -> Finding:
        """The finding that ends the run: no restart is left."""
        return Finding(
            "SURVIVE/restarts-used-up", "stop", "train", self._where(), {**self._numbers(), "count": count}
        )


class Same:
    """Counts falls in a row at one step."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.count = 0
        self._step: int | None = None

    def is_reached(self, fall: Fall) -> bool:
        """Count a fall; True where the limit is reached."""
        self.count = self.count + 1 if fall.step == self._step else 1
        self._step = fall.step
        return self.count >= self.limit


def who_fell(ranks: Ranks, exits: Mapping[int, int]) -> Fall:
    """The rank to blame: one killed by a signal before one that raised, since the others raise when its connections break."""
    fallen = {rank: code for rank, code in exits.items() if code not in DELIBERATE}
    killed = [rank for rank, code in fallen.items() if code < 0]
    own = [rank for rank in fallen if ranks.reason(rank) and not _of_connection(ranks.reason(rank))]
    rank = min(killed or own or fallen)
    beats = ranks.beats()
    return Fall(
        kind="died",
        rank=rank,
        step=max(beat.step for beat in beats.values()),
        phase=beats[rank].phase,
        host=socket.gethostname(),
        reason=reason_of(fallen[rank], ranks.reason(rank)),
    )


def _of_connection(reason: str) -> bool:
    """True for errors that a rank raises because another one went away."""
    return any(
        sign in reason for sign in ("Connection", "connection", "DistBackendError", "DistNetworkError")
    )


def reason_of(code: int, said: str) -> str:
    """Why a process ended, from its exit code and its own words."""
    if code < 0:
        try:
            return signal.Signals(-code).name
        except ValueError:
            return f"signal {-code}"
    return said or f"exit {code}"


def deliberate_code(exits: Mapping[int, int]) -> int:
    """One exit code for all ranks: the worst of those that were meant."""
    return next(code for code in DELIBERATE if code in exits.values())
