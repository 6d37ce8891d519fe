"""The processes of one start: begun together, watched by their beats and exit codes, killed together.

Ranks get the variables that torchrun sets, and a port of their own for every start: with a store that is kept across starts a killed rank made
torchrun's restart hang or fail in three of three tries (torch 2.13, gloo).
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import orjson

from umsicht.survive import pulse, worker
from umsicht.survive.pulse import Beat


@dataclass(frozen=True)
class Seats:
    """Which ranks of the world sit on this machine, and where all of them meet."""

    world: int
    first: int
    here: int
    address: str
    port: int

    @property
    def ranks(self) -> range:
        """Global numbers of the ranks on this machine."""
        return range(self.first, self.first + self.here)


def free_port(address: str = "127.0.0.1") -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


class Ranks:
    """The ranks of one start on this machine. Their beats, logs, stacks and reasons lie in `folder`."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        seats: Seats,
        *,
        start: int,
        environment: Mapping[str, str],
    ) -> None:
        self.folder = folder
        self.seats = seats
        self.began_s = time.monotonic()
        folder.mkdir(parents=True, exist_ok=True)
        self._logs: list[IO[bytes]] = []
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        for rank in seats.ranks:
            self._processes[rank] = self._start(command, rank, start, environment)

    def _start(
        self, command: Sequence[str], rank: int, start: int, environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        local = rank - self.seats.first
        variables = {
            **environment,
            "RANK": str(rank),
            "LOCAL_RANK": str(local),
            "WORLD_SIZE": str(self.seats.world),
            "LOCAL_WORLD_SIZE": str(self.seats.here),
            "MASTER_ADDR": self.seats.address,
            "MASTER_PORT": str(self.seats.port),
            "TORCHELASTIC_RESTART_COUNT": str(start),
            pulse.PATH_VARIABLE: str(self.beat_path(rank)),
            worker.ERROR_VARIABLE: str(self._path(rank, "error.json")),
            worker.STACK_VARIABLE: str(self._path(rank, "stack.txt")),
            worker.LAUNCHER_VARIABLE: str(os.getpid()),
        }
        streams: dict[str, Any] = {}
        if rank:
            variables["UMSICHT_QUIET"] = "1"
            log = self._path(rank, "log").open("ab")
            self._logs.append(log)
            streams = {"stdout": log, "stderr": log}
        # Sessions of their own: Ctrl-C in a terminal reaches the launcher alone, which passes it on once.
        return subprocess.Popen(
            list(command), env=variables, stdin=subprocess.DEVNULL, start_new_session=True, **streams
        )

    def _path(self, rank: int, what: str) -> Path:
        return self.folder / f"rank-{rank:05d}.{what}"

    def beat_path(self, rank: int) -> Path:
        """Where a rank's beats lie."""
        return self._path(rank, "beat")

    def pid(self, rank: int) -> int:
        """Process id of a rank."""
        return self._processes[rank].pid

    def beats(self) -> dict[int, Beat]:
        """What each rank last said of itself."""
        return {rank: pulse.read(self.beat_path(rank)) for rank in self.seats.ranks}

    def exits(self) -> dict[int, int]:
        """Exit codes of the ranks that ended; below 0 the signal that killed them."""
        codes = {rank: process.poll() for rank, process in self._processes.items()}
        return {rank: code for rank, code in codes.items() if code is not None}

    def reason(self, rank: int) -> str:
        """Why a rank fell, in its own words; empty where it had no time for any."""
        try:
            plain = orjson.loads(self._path(rank, "error.json").read_bytes())
        except (OSError, orjson.JSONDecodeError):
            return ""
        return f"{plain.get('type', '')}: {plain.get('message', '')}"[:500]

    def signal(self, number: int) -> None:
        """Send a signal to every rank that still lives."""
        for process in self._processes.values():
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    process.send_signal(number)

    def kill(self) -> None:
        """End all of them at once and wait until they are gone; a stopped process dies of SIGKILL too."""
        for process in self._processes.values():
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        for process in self._processes.values():
            process.wait()
        for log in self._logs:
            log.close()

    def is_stopped(self, rank: int) -> bool:
        """True where the kernel says that the process is stopped (Linux)."""
        try:
            stat = Path(f"/proc/{self.pid(rank)}/stat").read_text()
        except OSError:
            return False
        return stat.rpartition(")")[2].split()[0] in ("T", "t")

    def stack(self, rank: int, wait_s: float = 2.0) -> str:
        """Python's stack of a rank, all threads; a stopped process is let go on for that moment. Empty where it does not answer."""
        path = self._path(rank, "stack.txt")
        before = path.stat().st_size if path.is_file() else 0
        if worker.STACK_SIGNAL is None:
            return ""
        with suppress(ProcessLookupError):
            os.kill(self.pid(rank), worker.STACK_SIGNAL)
            os.kill(self.pid(rank), signal.SIGCONT)
        deadline = time.monotonic() + wait_s
        while time.monotonic() < deadline:
            time.sleep(0.05)
            if path.is_file() and path.stat().st_size > before:
                time.sleep(0.05)
                return path.read_text(errors="replace")[before:]
        return ""
