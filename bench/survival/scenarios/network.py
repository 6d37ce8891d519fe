"""Hosts and networks: two launchers in network namespaces of their own, on one machine, joined by a virtual cable."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.survival.job import Job, K
from bench.survival.registry import Figures, SkippedError, scenario
from bench.survival.subject import LONG_STEPS, STEPS, Subjects

TIMEOUT_S = 30.0
"""Beyond a cut of ten seconds and the pause until TCP tries again (it doubles: 12.6 s after the first loss, then 25)."""


class Hosts:
    """Two "hosts": namespaces `a` and `b` with a name and an address each, and the cable between them."""

    def __init__(self, mark: str) -> None:
        self.names = [f"um{mark}a", f"um{mark}b"]
        self.addresses = ["10.77.0.1", "10.77.0.2"]

    def make(self) -> None:
        """Make them. Raises SkippedError where that is not allowed."""
        try:
            for name in self.names:
                run("ip", "netns", "add", name)
                run("ip", "-n", name, "link", "set", "lo", "up")
            run(
                "ip",
                "link",
                "add",
                "v0",
                "netns",
                self.names[0],
                "type",
                "veth",
                "peer",
                "v0",
                "netns",
                self.names[1],
            )
            for name, address in zip(self.names, self.addresses, strict=True):
                run("ip", "-n", name, "addr", "add", f"{address}/24", "dev", "v0")
                run("ip", "-n", name, "link", "set", "v0", "up")
        except (OSError, subprocess.CalledProcessError) as error:
            self.remove()
            raise SkippedError(f"network namespaces cannot be made here: {error}") from None

    def remove(self) -> None:
        """Take them away."""
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)

    def cable(self, state: str) -> None:
        """Cut the cable ("down") or mend it ("up")."""
        run("ip", "-n", self.names[1], "link", "set", "v0", state)

    def slow(self) -> None:
        """Delay and limit what leaves both ends. Where the kernel has no netem, a token bucket limits it and its queue delays it.

        Raises SkippedError where the kernel has neither.
        """
        ways = (
            ["netem", "delay", "80ms", "rate", "10mbit"],
            ["tbf", "rate", "8mbit", "burst", "16kb", "latency", "500ms"],
        )
        for way in ways:
            done = [
                subprocess.run(
                    ["tc", "-n", name, "qdisc", "add", "dev", "v0", "root", *way], capture_output=True
                )
                for name in self.names
            ]
            if all(one.returncode == 0 for one in done):
                return
        raise SkippedError("the kernel has neither tc netem nor a token bucket")

    def inside(self, host: int) -> list[str]:
        """What to put before a command so that it runs on a host, under its name."""
        name = self.names[host]
        named = ["unshare", "--uts", "sh", "-c", f'hostname {name}; exec "$@"', "host"]
        return ["ip", "netns", "exec", name, *named]


def run(*command: str) -> None:
    """A command that must succeed."""
    subprocess.run(command, capture_output=True, text=True, check=True)


@contextmanager
def two_hosts(project: Path, least: int = 1) -> Iterator[tuple[Hosts, list[Job]]]:
    """Two launchers on one run, one rank each; the first one leads."""
    hosts = Hosts(project.parent.name[-4:].replace("_", "x"))
    hosts.make()
    jobs = [
        Job(
            project,
            ranks=1,
            timeout_s=TIMEOUT_S,
            hosts=f"{least}:2",
            address=hosts.addresses[host],
            prefix=hosts.inside(host),
        )
        for host in (0, 1)
    ]
    jobs[1].output = project / "launcher-b.txt"
    for job in jobs:
        job.world = 2
    try:
        jobs[0].start()
        lock = jobs[0].folder / "lock"
        jobs[0].wait("the first host to lead", lambda: lock.is_file() and lock.stat().st_size > 0)
        jobs[1].start()
        yield hosts, jobs
    finally:
        for job in jobs:
            job.destroy()
        hosts.remove()


def away(job: Job, reference: Job) -> float:
    """Largest relative difference of a loss; missing steps count as infinitely far."""
    mine, theirs = job.losses(), reference.losses()
    return max(abs(mine.get(step, float("inf")) - loss) / abs(loss) for step, loss in theirs.items())


@scenario(15, "network cut between two hosts: ten seconds, then for good")
def network_cut(subjects: Subjects) -> Figures:
    reference = subjects.unbroken(LONG_STEPS)
    with two_hosts(subjects.fresh(LONG_STEPS)) as (hosts, jobs):
        first = jobs[0]
        first.wait_step(8)
        hosts.cable("down")
        time.sleep(10)
        hosts.cable("up")
        reached = max(beat.step for beat in first.beats().values())
        first.wait_step(reached + 10)
        lost = first.sums().steps_lost
        restarts = len(first.events("fall"))
        cut = time.time()
        hosts.cable("down")
        fall = _next(first, "fall", restarts)
        running = _next(first, "running", len(first.events("running")))
        code = first.end()
    yield "ten seconds: steps lost", lost, f"<= {K}"
    yield "for good: host named", fall["host"] == hosts.names[1], "== 1"
    yield "for good: named after, s", fall["time"] - cut, f"<= {2 * TIMEOUT_S:g}"
    yield "for good: running again on the remaining rank after, s", running["time"] - cut, "<= 90"
    yield "ranks that go on", running["world"], "== 1"
    yield "exit code", code, "== 0"
    yield "largest relative difference of a loss", away(first, reference), "<= 1e-05"


def _next(job: Job, kind: str, seen: int) -> dict[str, Any]:
    """The event of a kind after the first `seen` ones."""
    return job.wait_event(kind, seen + 1)


@scenario(19, "a host gone for good")
def host_gone(subjects: Subjects) -> Figures:
    reference = subjects.unbroken()
    with two_hosts(subjects.fresh()) as (hosts, jobs):
        first, second = jobs
        first.wait_step(12)
        gone = time.time()
        second.destroy()
        fall = first.wait_event("fall")
        running = first.wait_event("running", 2)
        code = first.end()
    yield "host named", fall["host"] == hosts.names[1], "== 1"
    yield "running on the remaining rank after, s", running["time"] - gone, "<= 90"
    yield "ranks that go on", running["world"], "== 1"
    yield "steps lost", first.sums().steps_lost, f"<= {K}"
    yield "exit code", code, "== 0"
    yield "steps computed", len(first.losses()), f"== {STEPS}"
    yield "largest relative difference of a loss", away(first, reference), "<= 1e-05"


@scenario(20, "delay and rate limit on one link")
def link_slow(subjects: Subjects) -> Figures:
    with two_hosts(subjects.fresh(LONG_STEPS), least=2) as (hosts, jobs):
        first = jobs[0]
        first.wait_step(25)
        before = max(beat.step for beat in first.beats().values())
        hosts.slow()
        first.wait("a verdict", lambda: first.findings("RANK/s"))
        found = first.findings("RANK/s")
        for job in jobs:
            job.stop()
    yield "verdict “network”", found[0]["id"] == "RANK/slow-network", "== 1"
    yield "verdicts “data” or “straggler”", sum(row["id"] != "RANK/slow-network" for row in found), "== 0"
    yield "named after steps", found[0]["step"] - before, "<= 40"
