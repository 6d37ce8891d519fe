"""After a stop by a guard: no way on without words, and the one rewind that a recipe may ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from umsicht.findings import Finding, UserError, Waiver
from umsicht.pipeline.after_stop import Skipping, open_stop, require_acknowledgement, rewind, skipping
from umsicht.record import Run
from umsicht.train import Outcome, checkpoints


def stopped(folder: Path, finding: Finding, step: int) -> Run:
    run = Run.create(folder / "run", {"name": "r", "recipe": {}, "inputs": {}, "seed": 0})
    run.add_finding({**finding.to_dict(), "step": step})
    run.update_manifest(outcome={"reason": "stopped-by-guard", "step": step})
    return run


def test_a_stopped_run_goes_on_only_with_words(tmp_path: Path) -> None:
    run = stopped(tmp_path, Finding("NUMERIC/overflow", "stop", "run", "run: step 7, head"), 7)
    with pytest.raises(UserError, match="NUMERIC/overflow"):
        require_acknowledgement(run, [])
    with pytest.raises(UserError):
        require_acknowledgement(run, [Waiver("NUMERIC/hardware", "another finding")])
    require_acknowledgement(run, [Waiver("NUMERIC/overflow", "fp16 head; head in fp32 now")])
    assert open_stop(Run.open(run.folder)) is None
    assert run.manifest["acknowledged"][0]["because"] == "fp16 head; head in fp32 now"
    run.add_finding({"id": "NUMERIC/overflow", "grade": "stop", "step": 9})
    with pytest.raises(UserError):
        require_acknowledgement(run, [])


def test_a_full_disk_needs_no_words(tmp_path: Path) -> None:
    run = stopped(tmp_path, Finding("CHECKPOINT/disk-full", "stop", "train", "disk"), 7)
    require_acknowledgement(run, [])


class Steps:
    """A source that says which step it was asked for."""

    rows_per_batch = 3

    def batch(self, step: int) -> Any:
        return step

    def epoch(self, step: int) -> float:
        return step / 10


def kept(run: Run, step: int) -> None:
    checkpoints.save(
        run,
        checkpoints.Snapshot(step=step, tokens=step, model={"w": torch.ones(2)}, optimizer={}, state={}),
    )


def test_rewind_goes_back_before_the_onset_once_and_leaves_the_window_out(tmp_path: Path) -> None:
    finding = Finding(
        "CURVE/does-not-recover",
        "stop",
        "run",
        "run: step 90",
        {"remedy": "rewind", "onset": 41, "step": 90},
    )
    run = stopped(tmp_path, finding, 90)
    for step in (20, 40, 60, 90):
        kept(run, step)
    assert rewind(run, Outcome("stopped-by-guard", 90, finding))
    assert [one.step for one in checkpoints.listed(run)] == [20, 40]
    source: Any = skipping(Steps(), run)
    assert isinstance(source, Skipping) and source.rows_per_batch == 3
    assert [source.batch(step) for step in (39, 40, 41)] == [39, 90, 91]
    assert source.epoch(40) == 9.0
    assert not rewind(run, Outcome("stopped-by-guard", 120, finding)), "a second rise stops the run"


def test_no_rewind_without_a_checkpoint_before_the_onset(tmp_path: Path) -> None:
    finding = Finding(
        "CURVE/shift-up", "stop", "run", "run: step 30", {"remedy": "rewind", "onset": 9, "step": 30}
    )
    run = stopped(tmp_path, finding, 30)
    kept(run, 20)
    assert not rewind(run, Outcome("stopped-by-guard", 30, finding))
    assert [one.step for one in checkpoints.listed(run)] == [20]
