"""Comparisons: seeds, intervals, refusals, and experiments with one change."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from umsicht.diagnose.compare import compare
from umsicht.diagnose.experiment import lineage_of, new, tree
from umsicht.findings import UserError
from umsicht.recipe import load_recipe
from umsicht.recipe.load import recipe_from_text
from umsicht.record import Run


def plain_recipe(*overrides: str) -> dict[str, Any]:
    return recipe_from_text("preset: tiny\nname: small\n", "test", list(overrides)).plain()


def make_run(
    folder: Path,
    *,
    seed: int = 0,
    end: float = 2.0,
    speed: float = 1.0,
    steps: int = 100,
    recipe: dict[str, Any] | None = None,
    **manifest: Any,
) -> Run:
    """A finished run whose validation falls smoothly to `end`; a step takes 1/speed seconds."""
    plain = copy.deepcopy(recipe if recipe is not None else plain_recipe())
    plain["seed"] = seed
    head = {
        "name": "small",
        "id": f"{folder.name}-id",
        "recipe": plain,
        "seed": seed,
        "inputs": {"corpus": "c1", "tokenizer": "t1", "tokens": "k1"},
        "tokenizer_digest": "d1",
        "planned_steps": steps,
        **manifest,
    }
    run = Run.create(folder, head)
    writer = run.metrics_writer(run.begin_segment())
    for step in range(0, steps + 1, 10):
        value = end + 3 * (1 - step / steps) ** 2
        row = {"step": step, "tokens": step * 1000, "time": 50 + step / speed}
        writer.write(
            {**row, "train/loss": value, "val/all/loss": value, "val/all/bpb": value / 2, "val/a.en/bpb": 1.0}
        )
    writer.close()
    run.update_manifest(state="finished")
    return run


def three(folder: Path, label: str, ends: list[float], **more: Any) -> list[Path]:
    return [
        make_run(folder / f"{label}{seed}", seed=seed, end=end, **more).folder
        for seed, end in enumerate(ends)
    ]


def test_a_clear_difference_is_decided_at_equal_tokens_and_time(tmp_path: Path) -> None:
    other = plain_recipe("model.d_model=96")
    a = three(tmp_path, "a", [2.00, 2.02, 1.98])
    b = three(tmp_path, "b", [1.80, 1.82, 1.78], recipe=other)
    made = compare([*a, *b])
    assert [len(one.runs) for one in made.groups] == [3, 3]
    assert list(made.changes["B"]) == ["model.d_model"]
    assert made.metric == "val/all/bpb"
    assert [contest.at for contest in made.contests] == ["tokens", "time"]
    for contest in made.contests:
        assert contest.decision == "b-better"
        assert contest.difference.estimate == pytest.approx(-0.1, abs=1e-9)


def test_a_slower_recipe_loses_its_lead_at_equal_time(tmp_path: Path) -> None:
    other = plain_recipe("model.d_model=96")
    a = three(tmp_path, "a", [2.00, 2.02, 1.98])
    b = three(tmp_path, "b", [1.80, 1.82, 1.78], recipe=other, speed=0.5)
    tokens, time = compare([*a, *b]).contests
    assert tokens.decision == "b-better"
    assert time.decision == "a-better"
    assert time.budget == pytest.approx(100.0)


def test_inside_the_noise_there_is_no_winner_but_a_number_of_seeds(tmp_path: Path) -> None:
    other = plain_recipe("model.d_model=96")
    a = three(tmp_path, "a", [2.0, 2.2, 1.9])
    b = three(tmp_path, "b", [1.95, 2.15, 1.85], recipe=other)
    contest = compare([*a, *b]).contests[0]
    assert contest.decision == "inside-noise"
    assert contest.more_seeds is not None
    assert contest.more_seeds > 3
    assert contest.difference.low is not None
    assert contest.difference.high is not None
    assert contest.difference.low < 0 < contest.difference.high


def test_one_seed_each_never_wins(tmp_path: Path) -> None:
    a = make_run(tmp_path / "a", end=2.0).folder
    b = make_run(tmp_path / "b", end=1.0, recipe=plain_recipe("model.d_model=96")).folder
    assert compare([a, b]).contests[0].decision == "no-spread"


def test_seeds_alone_are_nothing_to_compare(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        compare(three(tmp_path, "a", [2.0, 2.1]))


@pytest.mark.parametrize(
    ("change", "metric"),
    [
        ({"tokenizer_digest": "d2"}, "val/all/loss"),
        ({"inputs": {"corpus": "c2", "tokenizer": "t1"}}, "val/all/bpb"),
    ],
)
def test_what_is_not_comparable_is_refused(tmp_path: Path, change: dict[str, Any], metric: str) -> None:
    a = make_run(tmp_path / "a").folder
    b = make_run(tmp_path / "b", recipe=plain_recipe("model.d_model=96"), **change).folder
    made = compare([a, b], metric=metric)
    assert made.refused
    assert made.contests == ()


def test_other_tokenizers_are_comparable_in_bits_per_byte(tmp_path: Path) -> None:
    a = make_run(tmp_path / "a").folder
    b = make_run(tmp_path / "b", recipe=plain_recipe("model.d_model=96"), tokenizer_digest="d2").folder
    assert not compare([a, b], metric="val/all/bpb").refused


def test_another_evaluation_protocol_is_refused(tmp_path: Path) -> None:
    a = make_run(tmp_path / "a")
    b = make_run(tmp_path / "b", recipe=plain_recipe("model.d_model=96"))
    for run, window in ((a, 128), (b, 256)):
        run.evaluations.mkdir()
        (run.evaluations / "step-00000100-x.json").write_text(f'{{"protocol": {{"window": {window}}}}}')
    assert compare([a.folder, b.folder]).refused


def test_two_changes_are_marked_as_confounded(tmp_path: Path) -> None:
    a = make_run(tmp_path / "a").folder
    b = make_run(
        tmp_path / "b", recipe=plain_recipe("model.d_model=96", "train.optimizer.weight_decay=0.2")
    ).folder
    made = compare([a, b])
    assert any("model.d_model" in caution for caution in made.cautions)


def test_foreign_logs_are_grouped_by_hand(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    paths = []
    for label, end in (("old", 2.0), ("new", 1.5)):
        for seed in range(3):
            path = tmp_path / f"{label}{seed}.csv"
            rows = [f"{s},{end + 30 / s + rng.normal(0, 0.01)}" for s in range(10, 110, 10)]
            path.write_text("step,val_loss\n" + "\n".join(rows) + "\n")
            paths.append(path)
    assigned = {"old": [f"old{s}.csv" for s in range(3)], "new": [f"new{s}.csv" for s in range(3)]}
    made = compare(paths, assigned=assigned)
    assert made.contests[0].at == "step"
    assert made.contests[0].decision == "b-better"
    assert made.cautions


def test_an_experiment_has_one_change_or_a_reason(tmp_path: Path) -> None:
    parent = make_run(tmp_path / "p" / "runs" / "first")
    with pytest.raises(UserError):
        new(parent, ["train.nonsense=5"])
    with pytest.raises(UserError):
        new(parent, [f"seed={parent.manifest['recipe']['seed']}"])
    with pytest.raises(UserError):
        new(parent, ["model.d_model=96", "train.optimizer.weight_decay=0.2"])
    made = new(parent, ["model.d_model=96"])
    assert list(made.changes) == ["model.d_model"]
    assert not made.confounded
    child = load_recipe(made.recipe_path)
    assert child.plain()["model"]["d_model"] == 96
    with pytest.raises(UserError):
        new(parent, ["model.d_model=96"])
    both = new(parent, ["model.d_model=96", "train.optimizer.weight_decay=0.2"], because="both at once")
    assert both.confounded


def test_the_tree_shows_planned_and_trained_children(tmp_path: Path) -> None:
    project = tmp_path / "p"
    parent = make_run(project / "runs" / "first", end=2.0)
    made = new(parent, ["model.d_model=96"], name="wider")
    assert [(node.name, node.state) for node in tree(project)[0].children] == [("wider", "planned")]
    recipe = load_recipe(made.recipe_path).plain()
    lineage = lineage_of(project, recipe)
    assert lineage["parent"] == "first"
    make_run(project / "runs" / "second", end=1.8, recipe=recipe, **lineage)
    (root,) = tree(project)
    (child,) = root.children
    assert (child.name, child.delta) == ("second", pytest.approx(-0.1))
    assert list(child.changes) == ["model.d_model"]
    assert lineage_of(project, parent.manifest["recipe"]) == {}
