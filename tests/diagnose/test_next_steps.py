"""Every experiment that a diagnosis proposes is a recipe that loads, with one setting changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from umsicht.diagnose.diagnosis import _settings
from umsicht.diagnose.groups import flatten
from umsicht.diagnose.next_steps import build, changes
from umsicht.recipe import load_recipe

RECIPE = """\
name: small
corpus: {sources: [{name: starter, kind: starter, parts: [wiki]}]}
model: {d_model: 64}
train: {budget: {tokens: 1.4e+6}, schedule: {shape: wsd, decay_share: 0.2}}
"""


def manifest(recipe: object) -> dict[str, object]:
    return {
        "recipe": recipe,
        "resolved": {"rates": {"matrix": 0.02}},
        "machine": {"precision": "float32"},
    }


def test_every_proposed_change_loads_and_changes_one_setting(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE)
    before = load_recipe(path).model_dump(mode="json")
    planned = changes(_settings(manifest(before), tmp_path))
    assert planned["precision"] == ""
    assert planned["lr-up"] == "train.optimizer.matrix_rate=0.06"
    assert planned["train-longer"] == "train.budget.tokens=2800000"
    for action, change in planned.items():
        if change:
            after = load_recipe(path, overrides=[change]).model_dump(mode="json")
            one, other = flatten(before), flatten(after)
            assert [key for key in other if other[key] != one.get(key)] == [change.partition("=")[0]], action


def test_an_experiment_that_would_change_nothing_is_left_out() -> None:
    settings = _settings(manifest(json.loads('{"train": {"budget": {"steps": 10}}}')), Path("nowhere"))
    steps = build("diverged", ("precision", "lr-too-high"), "runs/x", own=True, settings=settings)
    assert [step.id for step in steps] == ["lr-down", "warmup-longer"]
    assert steps[0].command.endswith("--set train.optimizer.matrix_rate=0.00667")
    assert steps[1].command == ""


@pytest.mark.parametrize("also", ["above-prediction", "gap-repeats"])
def test_what_is_said_beside_the_verdict_points_somewhere(also: str) -> None:
    alone = build("both-fall", (), "runs/x", own=True, settings={})
    more = build("both-fall", (), "runs/x", own=True, settings={}, also=[also])
    assert len(more) > len(alone)
    assert more[: len(alone)] == alone
