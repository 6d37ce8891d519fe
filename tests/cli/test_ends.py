"""The exit code says how the last training of a walk ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from umsicht.cli.walks import exit_code
from umsicht.finetune import StageResult
from umsicht.pipeline.run import Finished
from umsicht.record import Run
from umsicht.train import Outcome

ENDS = [
    (Outcome("finished", 9), 0),
    (Outcome("early-stopped", 9), 0),
    (Outcome("stopped-by-guard", 9), 3),
    (Outcome("interrupted", 9, signal="SIGINT"), 130),
    (Outcome("interrupted", 9, signal="SIGTERM"), 75),
    (Outcome("interrupted", 9, signal="SIGUSR1"), 75),
]


@pytest.mark.parametrize(("outcome", "code"), ENDS)
def test_of_a_training(outcome: Outcome, code: int, tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", {"name": "run"})
    assert exit_code(Finished(run, outcome).last) == code


@pytest.mark.parametrize(("outcome", "code"), ENDS)
def test_of_a_fine_tuning_stage_behind_it(outcome: Outcome, code: int, tmp_path: Path) -> None:
    base, tuned = (Run.create(tmp_path / name, {"name": name}) for name in ("base", "tuned"))
    done = StageResult(tuned, base, outcome, {})
    assert exit_code(Finished(base, Outcome("finished", 9), stages=(done,)).last) == code
