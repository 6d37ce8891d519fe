"""Grading: a plan beside the record of a run."""

import pytest

from umsicht.plan.grade import findings, grade, wall_seconds
from umsicht.record import Run

PLAN = {
    "steps": 3,
    "predicted": {
        "training_s": 36.0,
        "peak_bytes": 1000,
        "training_money": 9.0,
        "loss": {"value": 3.0, "low": 2.9, "high": 3.1, "level": 0.8},
        "bpb": {
            "all": {"value": 2.0, "low": 1.9, "high": 2.1, "level": 0.8},
            "gone": {"value": 1, "low": 1, "high": 1, "level": 0.8},
        },
    },
}


@pytest.fixture
def run(tmp_path) -> Run:
    made = Run.create(
        tmp_path / "run", {"name": "r", "recipe": {}, "inputs": {}, "seed": 0, "peak_bytes": 1050}
    )
    writer = made.metrics_writer(0)
    for step, time in ((1, 100.0), (2, 110.0)):
        writer.write({"step": step, "time": time, "train/loss": 3.0, "val/all/bpb": 2.5})
    writer.close()
    writer = made.metrics_writer(1)
    for step, time in ((2, 900.0), (3, 912.0)):
        writer.write({"step": step, "time": time, "val/all/bpb": 2.04, "val/all/loss": 3.3})
    writer.close()
    return Run.open(made.folder)


def test_every_quantity_that_both_know_is_graded(run):
    grades = {one.quantity: one for one in grade(PLAN, run)}
    assert set(grades) == {"bpb all", "loss all", "training_s", "money", "peak_bytes"}
    assert grades["bpb all"].error == pytest.approx(0.02)
    assert grades["bpb all"].good
    assert grades["bpb all"].inside
    assert grades["peak_bytes"].error == pytest.approx(0.05)
    assert grades["loss all"].error == pytest.approx(0.1) and not grades["loss all"].good
    assert grades["money"].error == pytest.approx(grades["training_s"].error)
    assert [one.location for one in findings(list(grades.values()))] == ["loss all"]


def test_time_between_segments_and_repeated_steps_are_not_counted():
    rows = [
        {"step": 1, "time": 0.0, "segment": 0},
        {"step": 3, "time": 20.0, "segment": 0},
        {"step": 4, "time": 900.0, "segment": 1},
        {"step": 5, "time": 910.0, "segment": 1},
    ]
    assert wall_seconds(rows) == 50.0


def test_a_prediction_that_did_not_hold_is_named(run):
    wrong = {
        **PLAN,
        "predicted": {
            "bpb": {"all": {"value": 1.5, "low": 1.4, "high": 1.6, "level": 0.8}},
            "training_s": 5.0,
        },
    }
    named = {finding.location for finding in findings(grade(wrong, run))}
    assert "bpb all" in named


def test_a_run_that_did_not_end_is_not_graded_for_time(run):
    assert "training_s" not in {one.quantity for one in grade({**PLAN, "steps": 10}, run)}
