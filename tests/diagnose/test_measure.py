"""Curves that do not measure what their names say are not called healthy; healthy ones beside them are."""

from __future__ import annotations

import math

import numpy as np
import pytest

from umsicht.diagnose import judge
from umsicht.diagnose.curves import Curves
from umsicht.diagnose.model import Diagnosis
from umsicht.diagnose.series import Series

STEPS = np.arange(10, 2001, 10)
VALIDATED = np.arange(100, 2001, 100)


def level(steps: np.ndarray, seed: int = 0) -> np.ndarray:
    """A healthy fall from 10.8 to about 3.6 nats, with the noise of a batch."""
    noise = np.random.default_rng(seed).normal(0, 0.03, len(steps))
    return 3.4 + 7.4 * np.exp(-((steps / 2000 * 6) ** 0.6)) + noise


def said(train: np.ndarray, val: np.ndarray | None = None, **more: np.ndarray) -> Diagnosis:
    found = {"train/loss": Series.of("train/loss", STEPS.tolist(), train.tolist())}
    if val is not None:
        found["val/all/loss"] = Series.of("val/all/loss", VALIDATED.tolist(), val.tolist())
    for name, values in more.items():
        full = "train/" + name
        found[full] = Series.of(full, STEPS.tolist(), values.tolist())
    return judge(Curves(found))


@pytest.mark.parametrize("seed", range(6))
def test_the_healthy_curve_is_healthy(seed: int) -> None:
    made = said(level(STEPS, seed), level(VALIDATED, seed + 50) + 0.05, grad_norm=np.ones(len(STEPS)))
    assert made.verdict == "healthy"


def test_a_loss_of_exactly_zero_hides_a_nan() -> None:
    train = np.where(STEPS < 900, level(STEPS), 0.0)
    assert said(train).reason == "loss-zero"
    assert said(train, level(VALIDATED) + 0.05).verdict == "diverged"


def test_a_gradient_norm_that_stays_nan_beside_a_loss_that_stands_still_is_divergence() -> None:
    train = np.where(STEPS < 1000, level(STEPS), level(np.full_like(STEPS, 1000)))
    norm = np.where(STEPS < 1000, 1.0, math.nan)
    assert said(train, grad_norm=norm).reason == "gradient-nonfinite"
    assert said(level(STEPS), level(VALIDATED) + 0.05, grad_norm=norm).verdict == "healthy"


@pytest.mark.parametrize("multiple", [2.0, 8.0])
def test_a_training_loss_that_was_summed_is_no_mean(multiple: float) -> None:
    made = said(multiple * level(STEPS), level(VALIDATED, 1) + 0.05)
    assert (made.verdict, made.reason) == ("uncertain", "fixed-multiple")
    assert made.causes[0] == "loss-summed"


def test_perplexity_under_the_name_of_a_loss_is_not_too_good_to_be_true() -> None:
    made = said(np.exp(level(STEPS)), np.exp(level(VALIDATED, 1)))
    assert (made.verdict, made.reason) == ("uncertain", "no-mean-loss")
    assert "perplexity" in made.causes


def test_a_loud_start_that_comes_down_is_a_loss() -> None:
    train = level(STEPS) + 200 * np.exp(-STEPS / 30)
    assert said(train, level(VALIDATED, 1) + 0.05).reason not in ("no-mean-loss", "fixed-multiple")


@pytest.mark.parametrize("jump", [0.8, -0.6])
def test_validation_that_jumps_alone_measures_something_else(jump: float) -> None:
    val = level(VALIDATED, 1) + np.where(VALIDATED < 1000, 0.05, 0.05 + jump)
    made = said(level(STEPS), val)
    assert made.reason == "val-changed"
    assert made.facts["rule_step"] == 1000


def test_validation_that_jumps_with_training_is_something_else() -> None:
    train = level(STEPS) + np.where(STEPS < 1000, 0.0, 0.8)
    val = level(VALIDATED, 1) + np.where(VALIDATED <= 1000, 0.05, 0.85)
    assert said(train, val).reason != "val-changed"


def test_steps_down_at_every_epoch_beside_a_validation_that_rises_are_learning_by_heart() -> None:
    epoch = (STEPS - 1) // 500
    train = 2.0 - 0.45 * epoch + np.random.default_rng(0).normal(0, 0.03, len(STEPS))
    passes = (VALIDATED - 1) // 500
    val = 1.9 + 0.03 * passes**2 + np.random.default_rng(1).normal(0, 0.002, len(VALIDATED))
    made = said(train, val, epoch=STEPS / 500)
    assert made.verdict == "overfitting"


def test_validation_far_below_training_is_said_beside_the_verdict() -> None:
    made = said(level(STEPS), level(VALIDATED, 1) - 0.9)
    assert "gap-negative" in {one.id for one in made.also}
