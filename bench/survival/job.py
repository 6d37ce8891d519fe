"""A supervised job as the bench sees it: started by the command line, watched by its beats, hurt by signals, judged by its record."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from umsicht.record import Run
from umsicht.record.ids import file_digest
from umsicht.record.run import read_jsonl
from umsicht.survive import pulse
from umsicht.survive.pulse import Beat
from umsicht.survive.survival import EVENTS, STARTS, Survival

SOURCE = Path(__file__).resolve().parents[2] / "src"
K = 5
"""Steps between checkpoints in every scenario."""
WAIT_S = float(os.environ.get("UMSICHT_FAULT_WAIT_S", "240"))
"""How long a scenario waits for something to happen before it is given up: generous, since machines are shared."""


class NeverError(AssertionError):
    """Something that a scenario waits for did not happen."""


class Job:
    """A supervised training in a project of its own: a launcher and its ranks."""

    def __init__(
        self,
        project: Path,
        *,
        ranks: int = 2,
        timeout_s: float = 60.0,
        hosts: str = "",
        address: str = "",
        options: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        self.project = project
        self.world = ranks
        self.environment = dict(environment or {})
        self.process: subprocess.Popen[bytes] | None = None
        self.output = project / f"launcher-{len(list(project.glob('launcher-*')))}.txt"
        launcher = Path(__file__).with_name("launcher.py")
        self.command = [*prefix, sys.executable, str(launcher), str(self.folder), str(ranks), str(timeout_s)]
        self.command += [hosts, address, *options]

    def start(self) -> Job:
        """Start the launcher."""
        environment = {**surroundings(), **self.environment}
        with self.output.open("ab") as file:
            self.process = subprocess.Popen(
                self.command, cwd=self.project, stdout=file, stderr=file, env=environment
            )
        return self

    def __enter__(self) -> Job:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.destroy()

    @property
    def launcher(self) -> int:
        """Process id of the launcher."""
        assert self.process is not None
        return self.process.pid

    @property
    def run(self) -> Run:
        """The run's record."""
        (folder,) = (self.project / "survive" / "runs").glob("survive-*")
        return Run.open(folder)

    @property
    def folder(self) -> Path:
        """The run's folder; named before the run exists too, since the project was prepared."""
        found = list((self.project / "survive" / "runs").glob("survive-*"))
        if not found:
            raise NeverError("no run folder yet")
        return found[0]

    def said(self) -> str:
        """What the launcher printed."""
        return self.output.read_text(errors="replace") if self.output.is_file() else ""

    def events(self, kind: str = "") -> list[dict[str, Any]]:
        """Lines of the supervision log."""
        rows = read_jsonl(self.folder / EVENTS)
        return [row for row in rows if not kind or row["event"] == kind]

    def sums(self) -> Survival:
        """What faults cost so far."""
        return Survival.read(self.folder)

    def findings(self, prefix: str) -> list[dict[str, Any]]:
        """Findings of the record whose id begins so."""
        return [row for row in self.run.findings() if str(row.get("id", "")).startswith(prefix)]

    # Watching ---------------------------------------------------------------------------------------------------------

    def beats(self) -> dict[int, Beat]:
        """Beats of the newest start, by rank."""
        starts = sorted((self.folder / STARTS).glob("start-*"))
        paths = sorted(starts[-1].glob("rank-*.beat")) if starts else []
        return {int(path.stem.partition("-")[2]): pulse.read(path) for path in paths}

    def wait(self, what: str, holds: Any, timeout_s: float = WAIT_S) -> None:
        """Wait until `holds()`; raises NeverError with the launcher's words where it does not come true in time."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            with suppress(NeverError, FileNotFoundError, ValueError):
                if holds():
                    return
            if self.process is not None and self.process.poll() is not None:
                with suppress(NeverError, FileNotFoundError, ValueError):
                    if holds():
                        return
                raise NeverError(
                    f"the launcher ended ({self.process.returncode}) before {what}:\n{self.tail()}"
                )
            time.sleep(0.01)
        raise NeverError(f"waited {timeout_s:.0f} s for {what}:\n{self.tail()}")

    def wait_step(self, step: int, *, start: int | None = None) -> None:
        """Wait until every rank has begun step `step` (of start number `start`, counted from 0)."""

        def reached() -> bool:
            if start is not None and len(self.events("start")) <= start:
                return False
            beats = self.beats()
            return len(beats) >= self.world and all(b.step >= step and b.first_done_s for b in beats.values())

        self.wait(f"step {step}", reached)

    def wait_event(self, kind: str, count: int = 1) -> dict[str, Any]:
        """Wait for the `count`-th event of a kind."""
        self.wait(f"event {kind} number {count}", lambda: len(self.events(kind)) >= count)
        return self.events(kind)[count - 1]

    def tail(self) -> str:
        """The last words of the launcher and of its ranks."""
        parts = [self.said()[-1500:]]
        with suppress(NeverError):
            starts = sorted((self.folder / STARTS).glob("start-*"))
            parts += (
                [path.read_text(errors="replace")[-700:] for path in starts[-1].glob("*.log")]
                if starts
                else []
            )
        return "\n".join(parts)

    # Hurting ----------------------------------------------------------------------------------------------------------

    def pid(self, rank: int) -> int:
        """Process of a rank in the newest start."""
        return int(self.events("start")[-1]["pids"][str(rank)])

    def hurt(self, rank: int, number: int) -> float:
        """Send a signal to a rank; returns the time at which."""
        with suppress(ProcessLookupError):
            os.kill(self.pid(rank), number)
        return time.time()

    def destroy(self) -> None:
        """Kill launcher and ranks at once; nothing is left."""
        if self.process is None:
            return
        pids = []
        with suppress(NeverError, IndexError):
            pids = [int(pid) for pid in self.events("start")[-1].get("pids", {}).values()]
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pid in pids:
            with suppress(ProcessLookupError, PermissionError):
                if _is_ours(pid):
                    os.kill(pid, signal.SIGKILL)

    def end(self, timeout_s: float = WAIT_S) -> int:
        """Wait for the launcher's end; its exit code."""
        assert self.process is not None
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise NeverError(f"the job did not end in {timeout_s:.0f} s:\n{self.tail()}") from None

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ask the launcher to save and end; its exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.end()

    # Judging ----------------------------------------------------------------------------------------------------------

    def losses(self) -> dict[int, float]:
        """Training loss by step, of the rows that count."""
        steps, values = self.run.metrics().series("train/loss")
        return dict(zip(steps, values, strict=True))

    def weights(self) -> str:
        """Digest of the newest checkpoint's weights."""
        newest = sorted(self.run.checkpoints.glob("step-*/model.safetensors"))[-1]
        return file_digest(newest, fresh=True)


def surroundings() -> dict[str, str]:
    """The environment of every process: one thread, English, this checkout's code."""
    return {
        **os.environ,
        "UMSICHT_LANG": "en",
        "OMP_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "PASSIVE",
        "PYTHONPATH": os.pathsep.join((str(SOURCE), str(SOURCE.parent))),
    }


def _is_ours(pid: int) -> bool:
    """Ids are used again: only a process of this job is killed."""
    try:
        return b"umsicht" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def copy_of(project: Path, to: Path) -> Path:
    """A project of its own for one scenario."""
    shutil.copytree(project, to, ignore=shutil.ignore_patterns("launcher-*"))
    return to
