"""Several launchers of one job, each a host of its own name and address on this machine, around ranks without torch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from umsicht.record import Run
from umsicht.record.run import read_jsonl
from umsicht.survive.survival import Survival

TOY = Path(__file__).with_name("toy_rank.py")
CODE = """
import sys
from pathlib import Path
from umsicht.survive import cluster
from umsicht.survive.launch import supervise
cluster.GATHER_HOSTS_S = 600.0
run, least, most, address, *command = sys.argv[1:]
sys.exit(supervise(command, Path(run), ranks=1, max_restarts=9, step_timeout_s=120.0, hosts=(int(least), int(most)), address=address, say=print))
"""
LONG_S = 900.0
"""How long a test waits for what must happen: far longer than any machine needs."""
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs several loopback addresses (Linux)")


class Hosts:
    """Launchers by host name."""

    def __init__(self, run: Run, steps: int, *options: str) -> None:
        self.run = run
        self.command = [sys.executable, str(TOY), str(run.folder), str(steps), "pace=0.03", *options]
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, least: int, most: int) -> subprocess.Popen[bytes]:
        address = f"127.0.0.{2 + len(self.processes)}"
        arguments = [str(self.run.folder), str(least), str(most), address, *self.command]
        self.processes[name] = subprocess.Popen(
            [sys.executable, "-c", CODE, *arguments], env={**os.environ, "UMSICHT_HOST": name}
        )
        return self.processes[name]

    def events(self, kind: str) -> list[dict[str, object]]:
        return [row for row in read_jsonl(self.run.folder / "supervision.jsonl") if row["event"] == kind]

    def rows(self) -> list[tuple[int, int]]:
        """(step, world) of every step computed."""
        path = self.run.folder / "log"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(int(line.split()[1]), int(line.split()[2])) for line in lines]

    def wait_led(self) -> None:
        """Until a host leads."""
        lock = self.run.folder / "lock"
        wait_for(lambda: lock.exists() and lock.stat().st_size > 0)

    def kill(self, name: str) -> None:
        """A host is gone from one moment to the next, in the midst of the steps; the others may pass the step at which all held."""
        wait_for(lambda: len(self.rows()) > 12)
        self.processes[name].send_signal(signal.SIGKILL)
        (self.run.folder / "go").touch()


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Callable[..., Hosts]]:
    made: list[Hosts] = []

    def make(steps: int, *options: str) -> Hosts:
        run = Run.create(tmp_path / "run", {"name": "run", "recipe": {}, "inputs": {}, "seed": 0})
        made.append(Hosts(run, steps, *options))
        return made[-1]

    yield make
    for one in made:
        for process in one.processes.values():
            process.kill()
            process.wait()


def wait_for(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONG_S
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def test_two_hosts_share_the_steps_and_end_together(hosts: Callable[..., Hosts]) -> None:
    job = hosts(30)
    first, second = job.start("a", 2, 2), job.start("b", 2, 2)
    assert first.wait(LONG_S) == 0 and second.wait(LONG_S) == 0
    assert {world for _, world in job.rows()} == {2}
    assert sorted(job.events("start")[0]["hosts"]) == ["a", "b"]  # type: ignore[call-overload]


def test_a_host_that_is_gone_is_named_and_the_other_goes_on(hosts: Callable[..., Hosts]) -> None:
    job = hosts(60, "hold=40")
    first = job.start("a", 1, 2)
    job.wait_led()
    job.start("b", 1, 2)
    job.kill("b")
    assert first.wait(LONG_S) == 0
    (fall,) = job.events("fall")
    assert (fall["kind"], fall["host"]) == ("host", "b")
    assert job.rows()[-1] == (60, 1)
    assert 0 <= Survival.read(job.run.folder).steps_lost <= 6
    assert [row["id"] for row in job.run.findings()] == ["SURVIVE/host-lost"]


def test_when_the_leader_dies_another_host_leads_on(hosts: Callable[..., Hosts]) -> None:
    job = hosts(60, "hold=40")
    job.start("a", 1, 2)
    job.wait_led()
    other = job.start("b", 1, 2)
    job.kill("a")
    assert other.wait(LONG_S) == 0
    assert job.rows()[-1] == (60, 1)


def test_one_host_told_to_stop_stops_all_with_nothing_lost(hosts: Callable[..., Hosts]) -> None:
    job = hosts(2000)
    first, second = job.start("a", 2, 2), job.start("b", 2, 2)
    wait_for(lambda: len(job.rows()) > 7)
    second.send_signal(signal.SIGTERM)
    assert first.wait(LONG_S) == 75 and second.wait(LONG_S) == 75
    assert int((job.run.folder / "checkpoint").read_text()) == job.rows()[-1][0]
