"""What faults cost a run: every start and fall as a line of `supervision.jsonl`, the sums in `survival.json`.

Steps executed count every step that was begun; a step is lost where a later start went on before it. MTTR is the mean time from noticing a fall to
the first step finished after it. Goodput is the time spent in steps that were kept ÷ the time launchers were at work.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from umsicht.record import atomic_json
from umsicht.record.run import append_jsonl
from umsicht.survive import pulse
from umsicht.survive.pulse import Beat

SCHEMA = 1
EVENTS, SUMS, STARTS = "supervision.jsonl", "survival.json", "supervise"


@dataclass
class Survival:
    """The sums over all starts of a run."""

    launches: int = 0
    starts: int = 0
    restarts: int = 0
    steps_executed: int = 0
    steps_lost: int = 0
    repair_s: list[float] = field(default_factory=list)
    kept_s: float = 0.0
    wall_s: float = 0.0
    unsettled: dict[str, float] | None = None
    """The last start, until it is known how much of it was kept: its first step, steps begun, seconds in steps."""

    @property
    def useful_share(self) -> float | None:
        """Steps kept ÷ steps executed."""
        return 1 - self.steps_lost / self.steps_executed if self.steps_executed else None

    @property
    def mttr_s(self) -> float | None:
        """Mean time to repair, seconds."""
        return sum(self.repair_s) / len(self.repair_s) if self.repair_s else None

    @property
    def goodput(self) -> float | None:
        """Share of the launchers' time that went into steps that were kept."""
        return min(1.0, self.kept_s / self.wall_s) if self.wall_s > 0 else None

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON, derived figures beside the sums."""
        return {
            "schema": SCHEMA,
            **asdict(self),
            "useful_share": self.useful_share,
            "mttr_s": self.mttr_s,
            "goodput": self.goodput,
        }

    @classmethod
    def read(cls, run_folder: Path) -> Survival:
        """The sums of a run; empty ones where none were written."""
        try:
            plain = orjson.loads((run_folder / SUMS).read_bytes())
        except (OSError, orjson.JSONDecodeError):
            return cls()
        return cls(**{name: plain[name] for name in cls.__dataclass_fields__ if name in plain})


class Ledger:
    """Keeps the account of a run while a launcher is at work."""

    def __init__(self, run_folder: Path) -> None:
        self.folder = run_folder
        self.sums = Survival.read(run_folder)
        self.sums.launches += 1
        self._counted_until = time.monotonic()
        self._fell_at: float | None = None
        self._settle_abandoned()

    def start_folder(self) -> Path:
        """The folder of the start that begins now."""
        return self.folder / STARTS / f"start-{self.sums.starts:05d}"

    def event(self, event: str, /, **facts: Any) -> None:
        """Write a line of the log."""
        append_jsonl(self.folder / EVENTS, [{"time": time.time(), "event": event, **facts}])

    def began(self) -> None:
        """A start begins."""
        self.sums.starts += 1
        self._write()

    def first_step(self, resumed: int) -> None:
        """The first step after a start is done: what the last start had beyond `resumed` is lost; the fall, if any, is repaired."""
        self._settle(resumed)
        if self._fell_at is not None:
            self.sums.repair_s.append(time.monotonic() - self._fell_at)
            self._fell_at = None
        self._write()

    def ended(self, beats: Mapping[int, Beat], *, fell: bool) -> None:
        """A start ended. How much of it is kept shows when the next one goes on; where it did not fall, everything is."""
        if fell:
            self.sums.restarts += 1
            # A fall before the first step prolongs the repair that was going on.
            self._fell_at = self._fell_at or time.monotonic()
        self._open_account(beats)
        if not fell:
            self._settle(None)
        self._write()

    def _open_account(self, beats: Mapping[int, Beat]) -> None:
        begun = [beat for beat in beats.values() if beat.resumed >= 0]
        if not begun:
            return
        self._settle(begun[0].resumed)
        furthest = max(begun, key=lambda beat: (beat.step, beat.stepping_s))
        self.sums.unsettled = {
            "first": float(furthest.resumed),
            "begun": float(furthest.step),
            "seconds": furthest.stepping_s,
        }
        self.sums.steps_executed += max(0, furthest.step - furthest.resumed)

    def _settle(self, resumed: int | None) -> None:
        """Close the account of the last start: steps beyond `resumed` were lost (None: none were)."""
        account, self.sums.unsettled = self.sums.unsettled, None
        if account is None:
            return
        begun, executed = int(account["begun"]), int(account["begun"] - account["first"])
        lost = 0 if resumed is None else min(max(0, begun - resumed), executed)
        self.sums.steps_lost += lost
        if executed:
            self.sums.kept_s += account["seconds"] * (executed - lost) / executed

    def _settle_abandoned(self) -> None:
        """A launcher that was killed closed no account: the beats of its ranks still lie there."""
        last = self.folder / STARTS / f"start-{self.sums.starts - 1:05d}"
        beats = {n: pulse.read(path) for n, path in enumerate(sorted(last.glob("rank-*.beat")))}
        marker = last / "ended"
        if self.sums.starts and beats and not marker.exists():
            self.sums.restarts += 1
            self._open_account(beats)
            self.event("abandoned", start=self.sums.starts - 1)
        self._write()

    def close_start(self, folder: Path) -> None:
        """Mark a start as accounted for, so that no later launcher takes it for abandoned."""
        (folder / "ended").touch()

    def _write(self) -> None:
        now = time.monotonic()
        self.sums.wall_s += now - self._counted_until
        self._counted_until = now
        atomic_json(self.folder / SUMS, self.sums.to_dict())

    def close(self) -> dict[str, Any]:
        """The launcher ends; the sums."""
        self._write()
        return self.sums.to_dict()
