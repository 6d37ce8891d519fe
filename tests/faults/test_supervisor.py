"""The supervisor around ranks without torch: what falls is named, started again from its checkpoint, counted; what loops is given up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from umsicht.findings import UserError
from umsicht.record import Run
from umsicht.record.run import read_jsonl
from umsicht.survive.supervisor import Conditions, Supervisor
from umsicht.survive.survival import Survival

TOY = Path(__file__).with_name("toy_rank.py")
LONG_S = 900.0
"""How long a test waits for what must happen: far longer than any machine needs."""
SILENCE_S = 6.0
"""The step timeout of tests in which a rank hangs: longer than a loaded machine keeps a process waiting."""
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")


def new_run(folder: Path) -> Run:
    return Run.create(folder, {"name": folder.name, "recipe": {}, "inputs": {}, "seed": 0})


def command(run: Run, steps: int, *options: str) -> list[str]:
    return [sys.executable, str(TOY), str(run.folder), str(steps), *options]


def supervise(
    run: Run, steps: int, *options: str, ranks: int = 2, timeout_s: float = 120.0, max_restarts: int = 100
) -> int:
    conditions = Conditions(ranks=ranks, step_timeout_s=timeout_s, max_restarts=max_restarts)
    return Supervisor(command(run, steps, *options), run.folder, conditions, say=lambda _: None).run()


def events(run: Run, kind: str) -> list[dict[str, object]]:
    return [row for row in read_jsonl(run.folder / "supervision.jsonl") if row["event"] == kind]


def steps_logged(run: Run) -> list[int]:
    return [int(line.split()[1]) for line in (run.folder / "log").read_text().splitlines()]


def meanwhile(act: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    return thread


def wait_for(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONG_S
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def test_a_job_without_faults_ends_with_its_ranks_code_and_counts_nothing_lost(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    assert supervise(run, 12) == 0
    sums = Survival.read(run.folder)
    assert (sums.restarts, sums.steps_executed, sums.steps_lost, sums.useful_share) == (0, 12, 0, 1.0)
    assert Run.open(run.folder).manifest["survival"]["steps_executed"] == 12


def test_a_killed_rank_is_named_and_the_job_goes_on_from_the_checkpoint(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    began = time.monotonic()
    assert supervise(run, 20, "die=13") == 0
    took = time.monotonic() - began
    (fall,) = events(run, "fall")
    assert (fall["kind"], fall["rank"], fall["step"], fall["reason"]) == ("died", 1, 13, "SIGKILL")
    assert fall["phase"] == "compute" and fall["host"]
    sums = Survival.read(run.folder)
    assert sums.restarts == 1 and sums.steps_lost == 3 and sums.steps_executed == 23
    assert sums.mttr_s is not None and 0 < sums.mttr_s < took
    assert steps_logged(run) == [*range(1, 13), *range(11, 21)]
    assert [row["id"] for row in run.findings()] == ["SURVIVE/rank-died"]


def test_a_step_that_always_fails_stops_the_job_after_three_times_with_the_reason(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    assert supervise(run, 20, "fail=7") == 1
    assert len(events(run, "start")) == 3
    found = [row for row in run.findings() if row["id"] == "SURVIVE/crash-loop"]
    assert found[0]["numbers"]["step"] == 7 and "cannot be computed" in found[0]["numbers"]["reason"]
    assert Run.open(run.folder).manifest["state"] == "stopped"


def test_restarts_can_be_limited(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    assert supervise(run, 20, "die=13", max_restarts=0) == 1
    assert run.findings()[-1]["id"] == "SURVIVE/restarts-used-up"


def test_a_rank_that_hangs_is_named_with_its_stack(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    assert supervise(run, 20, "hang=8", timeout_s=SILENCE_S) == 0
    (fall,) = events(run, "fall")
    assert (fall["kind"], fall["rank"], fall["step"], fall["phase"]) == ("stuck", 1, 8, "compute")
    assert "toy_rank.py" in str(fall["stack"]) and "strike" in str(fall["stack"])
    assert run.findings()[0]["examples"]


def test_a_stopped_rank_is_named_and_one_that_goes_on_in_time_is_not(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")

    def stop_and_go() -> None:
        wait_for(lambda: (run.folder / "log").exists() and len(steps_logged(run)) > 6)
        pid = int(events(run, "start")[0]["pids"]["1"])  # type: ignore[index]
        os.kill(pid, signal.SIGSTOP)
        time.sleep(1.0)
        os.kill(pid, signal.SIGCONT)
        reached = len(steps_logged(run))
        wait_for(lambda: len(steps_logged(run)) > reached + 3)
        os.kill(pid, signal.SIGSTOP)
        (run.folder / "go").touch()

    meanwhile(stop_and_go)
    assert supervise(run, 60, "pace=0.02", "hold=50", timeout_s=SILENCE_S) == 0
    (fall,) = events(run, "fall")
    assert (fall["kind"], fall["rank"], fall["reason"]) == ("frozen", 1, "SIGSTOP")
    assert SILENCE_S < float(str(fall["silent_s"])) <= 2 * SILENCE_S


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 75), (signal.SIGUSR1, 75), (signal.SIGINT, 130)]
)
def test_a_launcher_that_is_told_to_stop_loses_no_step(tmp_path: Path, number: int, code: int) -> None:
    run = new_run(tmp_path / "run")

    def ask() -> None:
        wait_for(lambda: (run.folder / "log").exists() and len(steps_logged(run)) > 6)
        os.kill(os.getpid(), number)

    meanwhile(ask)
    assert supervise(run, 5000, "pace=0.02") == code
    last = steps_logged(run)[-1]
    assert int((run.folder / "checkpoint").read_text()) == last < 5000
    assert supervise(run, last + 5) == 0
    sums = Survival.read(run.folder)
    assert sums.steps_lost == 0 and sums.restarts == 0 and sums.launches == 2


def test_a_second_launcher_is_refused_and_a_killed_one_leaves_no_ranks_and_no_lock(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    code = (
        "import sys; from pathlib import Path; from umsicht.survive.supervisor import Conditions, Supervisor;"
        "Supervisor(sys.argv[2:], Path(sys.argv[1]), Conditions(ranks=2), say=print).run()"
    )
    launcher = subprocess.Popen(
        [sys.executable, "-c", code, str(run.folder), *command(run, 5000, "pace=0.02")]
    )
    wait_for(lambda: (run.folder / "log").exists() and len(steps_logged(run)) > 7)
    with pytest.raises(UserError) as refused:
        supervise(run, 20)
    assert str(launcher.pid) in refused.value.what
    pids = [int(pid) for pid in events(run, "start")[0]["pids"].values()]  # type: ignore[attr-defined]
    launcher.kill()
    launcher.wait()
    wait_for(lambda: not any(alive(pid) for pid in pids))
    reached = steps_logged(run)[-1]
    assert supervise(run, reached + 10) == 0
    sums = Survival.read(run.folder)
    assert sums.launches == 2 and sums.restarts == 1 and 0 <= sums.steps_lost <= 6


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def test_an_end_that_was_meant_is_passed_on_and_not_repeated(tmp_path: Path) -> None:
    for code in (3, 2):
        run = new_run(tmp_path / f"run-{code}")
        assert supervise(run, 4, f"code={code}") == code
        assert len(events(run, "start")) == 1 and not events(run, "fall")
