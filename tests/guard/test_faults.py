"""A dozen faults and three healthy pipelines of the fault bench, each in a process of its own.

The parent of those processes is a fresh one too: a fork of a process whose torch has started threads may never wake up.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bench.faults.__main__ import SHORT, SHORT_HEALTHY
from bench.faults.cases import CASES
from bench.faults.judge import judge

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
BY_NAME = {case.name: case for case in CASES}
SERVER = """
import json, sys
from bench.faults import healthy
from bench.faults.server import forked
from bench.faults.work import run_case
from bench.faults.cases import CASES
faults, quiet = json.loads(sys.argv[1])
cases = {case.name: case for case in CASES}
answers = {name: forked(run_case, cases[name]) for name in faults}
answers.update({name: forked(healthy.run_healthy, name) for name in quiet})
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    """What the guards said of each."""
    done = subprocess.run(
        [sys.executable, "-c", SERVER, json.dumps([list(SHORT), list(SHORT_HEALTHY)])],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


@pytest.mark.parametrize("name", SHORT)
def test_planted_fault_is_named(name: str, answers: dict[str, Any]) -> None:
    assert judge(BY_NAME[name], answers[name]) == "named", answers[name]


@pytest.mark.parametrize("name", SHORT_HEALTHY)
def test_healthy_pipeline_is_quiet(name: str, answers: dict[str, Any]) -> None:
    answer = answers[name]
    assert (answer["named"], answer.get("alarms"), answer["reason"]) == ([], [], "finished"), answer
