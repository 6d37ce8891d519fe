"""Rated checkpoints of a run, and the metrics of its record that still go with the ratings."""

from __future__ import annotations

import contextlib
import json
import random

import pytest

from umsicht.cli.main import main
from umsicht.findings import UserError
from umsicht.ratings import Design, Output, Round, create, default, match, of_round, score
from umsicht.record.run import Run

STEPS = range(100, 600, 100)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Bits per byte fall with the step; distinctness falls too, although the texts get better."""
    made = Run.create(
        tmp_path_factory.mktemp("project") / "runs" / "r",
        {"name": "r", "recipe": {}, "inputs": {}, "seed": 0},
    )
    writer = made.metrics_writer(0)
    for step in STEPS:
        row = {
            "val/all/bpb": 3.0 - step / 400,
            "samples/distinct_2": 1.0 - step / 1000,
            "samples/took_s": 1.0,
        }
        writer.write({"step": step, "tokens": step, **row})
    writer.close()
    return made


def rated(run: Run, steps: range) -> Round:
    """Two raters who prefer the text of the later step nine times out of ten."""
    outputs = [
        Output(f"r@{step}", f"p{i}", f"Prompt {i}", f"{step} " + " ".join(f"w{i}{j}" for j in range(8)))
        for i in range(20)
        for step in steps
    ]
    one = create(
        run.folder / "ratings" / f"n{len(steps)}",
        match(outputs),
        Design(raters=("a", "b"), seed=1),
        default(),
    )
    for rater in one.raters:
        rng = random.Random(rater)
        for item in one.items(rater):
            values = [_level(text) for text in (item.left, item.right)]
            better = "left" if values[0] > values[1] else "right"
            other = {"left": "right", "right": "left"}[better]
            one.answer(rater, item.id, better if min(values) < 0 or rng.random() < 0.9 else other)
    score(one)
    return one


@pytest.fixture(scope="module")
def one(run: Run) -> Round:
    return rated(run, STEPS)


def _level(text: str) -> float:
    first, *rest = text.split()
    return float(first) if first.isdigit() and rest == sorted(rest) else -1.0


def test_a_metric_that_goes_with_people_is_kept_and_one_that_went_astray_is_recorded(run, one, capsys):
    with contextlib.suppress(SystemExit):
        main(["rate", "metrics", str(one.folder), "--json"])
    shown = json.loads(capsys.readouterr().out)
    rho = {row["metric"]: row["rho"] for row in shown["metrics"]}
    assert rho["val/all/bpb"] > 0.9 and rho["samples/distinct_2"] < -0.9 and "samples/took_s" not in rho
    assert [f["location"] for f in shown["findings"]] == ["samples/distinct_2"]
    assert [f["id"] for f in run.findings()] == ["RATING/metric-lost"]


def test_few_checkpoints_say_nothing(run):
    with pytest.raises(UserError, match="3 checkpoints"):
        of_round(rated(run, STEPS[:3]).folder, lambda name: run)


def test_an_unscored_round_says_nothing(run, one):
    (one.folder / "result.json").unlink()
    with pytest.raises(UserError, match="not scored"):
        of_round(one.folder, lambda name: run)
