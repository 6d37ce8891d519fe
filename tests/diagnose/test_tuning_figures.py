"""What preference and reward training log beside the loss is read; healthy logs of them have nothing said."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from umsicht.diagnose import diagnose

STEPS = 120
Row = dict[str, float]


def said(folder: Path, row: Callable[[float, random.Random], Row]) -> set[str]:
    """Ids of what is said about these figures in a Trainer's log; `row` gets the share of the run that is done."""
    dice = random.Random(3)
    history = [{"step": step, "epoch": step / 40, **row(step / STEPS, dice)} for step in range(1, STEPS + 1)]
    path = folder / "trainer_state.json"
    path.write_text(json.dumps({"log_history": history, "global_step": STEPS, "max_steps": STEPS}))
    return {one.id for one in diagnose(path).also if one.id.startswith("tune-")}


def preferring(**changes: float) -> Callable[[float, random.Random], Row]:
    end = {"accuracy": 0.75, "chosen": -0.2, "rejected": -1.1, "loss": 0.5, **changes}

    def row(done: float, dice: random.Random) -> Row:
        learned = 1 - math.exp(-4 * done)
        chosen, rejected = end["chosen"] * learned, end["rejected"] * learned
        return {
            "loss": 0.693 + (end["loss"] - 0.693) * learned + dice.gauss(0, 0.02),
            "rewards/accuracies": end.get("begin", 0.5) * (1 - learned) + end["accuracy"] * learned,
            "rewards/chosen": chosen + dice.gauss(0, 0.02),
            "rewards/rejected": rejected + dice.gauss(0, 0.02),
            "rewards/margins": chosen - rejected,
        }

    return row


def rewarded(**changes: float) -> Callable[[float, random.Random], Row]:
    def row(done: float, dice: random.Random) -> Row:
        healthy = {
            "loss": dice.gauss(0, 0.01),
            "reward": 0.1 + 0.5 * done + dice.gauss(0, 0.04),
            "reward_std": 0.3 + dice.gauss(0, 0.02),
            "frac_reward_zero_std": 0.3 + dice.gauss(0, 0.03),
            "kl": 0.05 * done,
            "clip_ratio": 0.02,
            "entropy": 1.2 - 0.5 * done,
            "completions/clipped_ratio": 0.1,
        }
        ends = {name: value for name, value in changes.items() if name in healthy}
        return {
            **healthy,
            **{name: healthy[name] * (1 - done) + value * done for name, value in ends.items()},
        }

    return row


@pytest.mark.parametrize("row", [preferring(), preferring(accuracy=0.58, loss=0.66), rewarded()])
def test_healthy_figures_are_quiet(row: Callable[[float, random.Random], Row], tmp_path: Path) -> None:
    assert said(tmp_path, row) == set()


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (preferring(accuracy=0.2), "tune-accuracy-low"),
        (preferring(accuracy=1.0, begin=1.0), "tune-accuracy-at-once"),
        (preferring(chosen=-20.0, rejected=-32.0), "tune-both-fall"),
        (rewarded(frac_reward_zero_std=1.4), "tune-flat"),
        (rewarded(kl=40.0), "tune-kl-large"),
        (rewarded(kl=-3.0), "tune-kl-negative"),
        (rewarded(clip_ratio=1.2), "tune-clipped"),
        (lambda done, dice: {"loss": 0.0, "reward": 0.5 - 0.4 * done}, "tune-reward-falls"),
    ],
)
def test_ill_figures_are_spoken_of(
    row: Callable[[float, random.Random], Row], expected: str, tmp_path: Path
) -> None:
    assert expected in said(tmp_path, row)


def test_accuracies_of_a_few_pairs_a_step_prove_nothing(tmp_path: Path) -> None:
    def row(done: float, dice: random.Random) -> Row:
        return {"loss": 0.69, "rewards/accuracies": dice.choice((0.0, 0.25, 0.25, 0.5, 0.75, 1.0))}

    assert said(tmp_path, row) == set()


def test_a_policy_compared_with_itself_is_told_by_its_loss(tmp_path: Path) -> None:
    assert said(tmp_path, lambda done, dice: {"loss": 0.6931}) == {"tune-ln2"}


def test_a_divergence_of_something_else_is_not_read_as_one_from_a_reference(tmp_path: Path) -> None:
    assert said(tmp_path, lambda done, dice: {"loss": 2 - done, "kl": 25.0, "entropy": 2 - 2 * done}) == set()


def test_groups_that_always_earn_the_same_are_told_without_a_share_of_them(tmp_path: Path) -> None:
    assert "tune-flat" in said(tmp_path, lambda done, dice: {"loss": 0.0, "reward": 0.0, "reward_std": 0.0})


def test_answers_that_never_end_are_told(tmp_path: Path) -> None:
    figures = {"loss": 0.0, "reward": 0.3, "completions/clipped_ratio": 1.0}
    assert said(tmp_path, lambda done, dice: figures) == {"tune-cut"}


def test_a_collapsed_policy_is_told(tmp_path: Path) -> None:
    def row(done: float, dice: random.Random) -> Row:
        return {"loss": 0.0, "reward": 0.3, "entropy": 1.2 * math.exp(-9 * done)}

    assert said(tmp_path, row) == {"tune-entropy"}
