"""Processes that stand still or are slow, and clocks that jump."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress

from bench.survival.job import WAIT_S, Job, surroundings
from bench.survival.registry import Figures, scenario
from bench.survival.scenarios.kills import differing
from bench.survival.shim import shim
from bench.survival.subject import LONG_STEPS, Subjects

TIMEOUT_S = 15.0
"""Longer than a loaded machine keeps a process waiting."""


@scenario(5, "SIGSTOP of a rank; SIGCONT in time")
def rank_stopped(subjects: Subjects) -> Figures:
    reference = subjects.unbroken()
    with Job(subjects.fresh(), timeout_s=TIMEOUT_S) as job:
        job.wait_step(7)
        job.hurt(1, signal.SIGSTOP)
        time.sleep(2.0)
        job.hurt(1, signal.SIGCONT)
        job.wait_step(12)
        early = len(job.events("fall"))
        stopped = job.hurt(1, signal.SIGSTOP)
        fall = job.wait_event("fall")
        code = job.end()
    finding = job.findings("SURVIVE/rank-frozen")
    yield "restarts after SIGCONT in time", early, "== 0"
    yield "named after, s", fall["time"] - stopped, f"<= {2 * TIMEOUT_S:g}"
    named = fall["rank"] == 1 and fall["host"] == socket.gethostname() and bool(fall["phase"])
    yield "host, rank and phase named", named, "== 1"
    yield "lines of its Python stack", fall["stack"].count("File"), ">= 1"
    yield "finding in the record", len(finding), "== 1"
    yield "exit code", code, "== 0"
    yield "steps whose loss differs", differing(job, reference), "== 0"


class Slowed:
    """A process that gets a fifth of its time: stopped and let go in turn."""

    def __init__(self, pid: int, run_s: float = 0.02, factor: int = 5) -> None:
        self.pid, self.run_s, self.factor = pid, run_s, factor
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._turn, daemon=True)

    def _turn(self) -> None:
        while not self._over.is_set():
            try:
                os.kill(self.pid, signal.SIGSTOP)
                time.sleep(self.run_s * (self.factor - 1))
                os.kill(self.pid, signal.SIGCONT)
            except ProcessLookupError:
                return
            time.sleep(self.run_s)

    def __enter__(self) -> Slowed:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGCONT)


@scenario(6, "a rank five times slower")
def rank_slow(subjects: Subjects) -> Figures:
    clean = subjects.unbroken(LONG_STEPS)
    yield f"false alarms in {LONG_STEPS} clean steps", len(clean.findings("RANK/")), "== 0"
    with Job(subjects.fresh(LONG_STEPS)) as job:
        job.wait_step(25)
        before = max(beat.step for beat in job.beats().values())
        with Slowed(job.pid(1)):
            job.wait("the straggler to be named", lambda: job.findings("RANK/straggler"))
        found = job.findings("RANK/straggler")[0]
        job.wait_step(before + 45)
        restarts = len(job.events("fall"))
        job.stop()
    yield "named after steps", found["step"] - before, "<= 20"
    yield "the right rank", found["numbers"]["rank"] == 1, "== 1"
    yield "restarts", restarts, "== 0"


@scenario(13, "clock jumps of an hour, forwards and back")
def clock_jumps(subjects: Subjects) -> Figures:
    reference = subjects.unbroken(LONG_STEPS)
    project = subjects.fresh(LONG_STEPS)
    offset = project / "offset"
    offset.write_text("0")
    environment = {"LD_PRELOAD": str(shim(project)), "CLOCK_OFFSET": str(offset)}
    looks: list[subprocess.Popen[str]] = []
    with Job(project, environment=environment) as job:
        for step, jump in ((20, 3600), (60, -3600), (100, 0), (140, 3600)):
            job.wait_step(step)
            offset.write_text(str(jump))
            if len(looks) < 2:
                looks.append(_watch(job, environment))
        code = job.end()
    watched = [look.communicate(timeout=WAIT_S)[0] for look in looks]
    jumps = [
        b["time"] - a["time"]
        for a, b in zip(job.run.metrics().rows, job.run.metrics().rows[1:], strict=False)
    ]
    yield "jumps seen in the recorded time", sum(abs(jump) > 3000 for jump in jumps), ">= 3"
    yield "false stalls", len(job.events("fall")), "== 0"
    yield "negative ETAs in the terminal", job.said().count("ETA -"), "== 0"
    etas = [float(found) for text in watched for found in re.findall(r'"eta_s": (-?[0-9.]+)', text)]
    yield "looks of the live view that give an ETA", len(etas), "== 2"
    yield "negative ETAs on the live view", sum(eta < 0 for eta in etas), "== 0"
    yield "exit code", code, "== 0"
    yield "steps whose loss differs", differing(job, reference), "== 0"


def _watch(job: Job, environment: dict[str, str]) -> subprocess.Popen[str]:
    """The live view, asked for now; it answers when it has looked."""
    command = [sys.executable, "-m", "umsicht", "watch", str(job.folder), "--json"]
    env = {**surroundings(), **environment}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
