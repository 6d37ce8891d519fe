"""The fast summary says what the slow reader says, and reads only what is new."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from umsicht.diagnose import summary
from umsicht.record import Run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    made = Run.create(tmp_path / "r", {"name": "r"})
    rng = np.random.default_rng(0)
    writer = made.metrics_writer(made.begin_segment())
    for step in range(1, 1001):
        loss = 2 + 5 / step + rng.normal(0, 0.02) + (3 if step == 700 else 0)
        row = {
            "step": step,
            "tokens": step * 10,
            "train/loss": float("nan") if step == 500 else loss,
            "note": "x",
        }
        if step % 100 == 0:
            row |= {"val/all/loss": 2.1 + 5 / step + (0.5 if step > 800 else 0), "val/all/bpb": 1.0}
        writer.write(row)
    writer.close()
    return made


def test_summary_of_a_run(run: Run) -> None:
    made = summary.summarise(run.folder)
    assert (made.rows, made.last_step, made.tokens) == (1000, 1000, 10_000)
    assert (made.nonfinite, made.spikes, made.torn, made.restarts) == (1, 1, 0, 0)
    assert made.val_best_step == 800
    assert made.val_best == pytest.approx(2.1 + 5 / 800)
    assert made.train_loss == pytest.approx(2.0, abs=0.05)


def test_only_new_rows_are_read_and_a_torn_line_waits(run: Run) -> None:
    columns = summary.Columns(run.metrics_path)
    assert columns.update() == 1000
    offset = columns.offset
    with run.metrics_path.open("ab") as file:
        file.write(b'{"step": 1001, "train/loss": 2.0}\n{"step": 1002, "train')
    assert columns.update() == 1
    assert (columns.torn, columns.offset > offset) == (1, True)
    with run.metrics_path.open("ab") as file:
        file.write(b'/loss": 1.9}\n')
    assert columns.update() == 1
    assert columns.torn == 0
    assert columns.losses()[-1] == 1.9


def test_a_replaced_file_is_read_again(run: Run) -> None:
    columns = summary.Columns(run.metrics_path)
    columns.update()
    run.metrics_path.unlink()
    run.metrics_path.write_text(json.dumps({"step": 1, "train/loss": 5.0}) + "\n")
    assert columns.update() == 1
    assert columns.rows == 1


def test_broken_lines_are_counted(run: Run) -> None:
    with run.metrics_path.open("ab") as file:
        file.write(b'nonsense\n{"no": "step"}\n')
    made = summary.summarise(run.folder)
    assert made.rows == 1000
    assert made.unreadable == 2


def test_runs_without_a_record_are_left_out(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert [one.name for one in summary.summarise_all([tmp_path / "empty", run.folder])] == ["r"]
