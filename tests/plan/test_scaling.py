"""The law on trainings made from a known law: it must find it, and its intervals must hold."""

import numpy as np
import pytest

from umsicht.plan.scaling import Point, ScalingLaw


def truth(n, d, floor=0.9, a=30.0, alpha=0.35, b=60.0, beta=0.3):
    return floor + a * n**-alpha + b * d**-beta


def trials(noise=0.0, seed=0, **law):
    rng = np.random.default_rng(seed)
    grid = [(n, d) for n in (5e4, 1e5, 2e5) for d in (1e5, 2e5, 4e5)]
    return [Point(n, d, truth(n, d, **law) * float(np.exp(noise * rng.standard_normal()))) for n, d in grid]


def test_a_known_law_is_continued_far_beyond_the_trials():
    law = ScalingLaw(trials())
    for n, d in ((4e5, 1.6e6), (8e5, 3.2e6)):
        assert law.predict(n, d).value == pytest.approx(truth(n, d), rel=0.03)


def test_intervals_hold_as_often_as_they_say_and_are_narrow():
    rng = np.random.default_rng(1)
    held, widths = 0, []
    for case in range(24):
        parts = {
            "floor": rng.uniform(0.5, 1.1),
            "alpha": rng.uniform(0.25, 0.45),
            "beta": rng.uniform(0.22, 0.4),
        }
        law = ScalingLaw(trials(0.01, case, **parts))
        made = law.predict(4e5, 1.6e6)
        held += made.holds(truth(4e5, 1.6e6, **parts) * float(np.exp(0.01 * rng.standard_normal())))
        widths.append((made.high - made.low) / 2 / made.value)
    assert held >= 17
    assert np.median(widths) < 0.10


def test_more_tokens_and_more_weights_never_predict_a_worse_score():
    law = ScalingLaw(trials(0.01))
    scores = [law.predict(2e5, d).value for d in (4e5, 8e5, 1.6e6, 3.2e6)]
    assert scores == sorted(scores, reverse=True)


def test_farther_is_less_certain():
    law = ScalingLaw(trials(0.01))
    near, far = law.predict(2e5, 4e5), law.predict(2e6, 4e7)
    assert (far.high - far.low) / far.value > (near.high - near.low) / near.value


def test_trials_of_one_size_still_predict_longer_runs():
    points = [Point(1e5, d, truth(1e5, d)) for d in (1e5, 2e5, 4e5)]
    assert ScalingLaw(points).predict(1e5, 1.6e6).value == pytest.approx(truth(1e5, 1.6e6), rel=0.06)


def test_the_same_trials_give_the_same_law():
    assert ScalingLaw(trials()).predict(1e6, 1e6) == ScalingLaw(trials()).predict(1e6, 1e6)


def test_two_trials_are_too_few():
    with pytest.raises(ValueError, match="three"):
        ScalingLaw(trials()[:2])
