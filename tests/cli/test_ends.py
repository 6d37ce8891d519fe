"""The exit code says how the last training of a walk ended, or that a gate stayed shut."""

from __future__ import annotations

from pathlib import Path

import pytest

from umsicht.cli.walks import exit_code, show_gate
from umsicht.findings import Finding, decide
from umsicht.finetune import StageResult
from umsicht.pipeline.run import Finished
from umsicht.pipeline.walk import GateClosedError
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


@pytest.mark.parametrize("json", [False, True])
def test_a_shut_gate_is_a_guards_stop(json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    finding = Finding("CORPUS/missing-package", "stop", "corpus", "wiki", {"package": "wiki"})
    assert show_gate(GateClosedError(decide("corpus", [finding], ())), json=json) == 3
    assert finding.id in capsys.readouterr().out
