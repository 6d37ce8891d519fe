"""Student's t and Welch's interval against published values."""

from __future__ import annotations

import math

import numpy as np
import pytest

from umsicht.diagnose.stats import bootstrap, paired, seeds_to_decide, t_cdf, t_quantile, welch


@pytest.mark.parametrize(
    ("p", "degrees", "value"),
    [  # tables of Student's t distribution
        (0.975, 1, 12.7062),
        (0.975, 2, 4.30265),
        (0.975, 4, 2.77645),
        (0.975, 10, 2.22814),
        (0.95, 5, 2.01505),
        (0.995, 3, 5.84091),
        (0.975, 1000, 1.96234),
    ],
)
def test_t_quantiles(p: float, degrees: float, value: float) -> None:
    assert t_quantile(p, degrees) == pytest.approx(value, rel=2e-6)
    assert t_quantile(1 - p, degrees) == pytest.approx(-value, rel=2e-6)
    assert t_cdf(value, degrees) == pytest.approx(p, abs=1e-6)


def test_t_of_one_degree_is_cauchy() -> None:
    for x in (-3.0, -0.5, 0.0, 0.2, 1.0, 10.0):
        assert t_cdf(x, 1) == pytest.approx(0.5 + math.atan(x) / math.pi, abs=1e-12)


def test_welch_by_hand() -> None:
    a, b = np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0])
    made = welch(a, b)
    # variances 1 and 4: error^2 = 5/3; degrees = (5/3)^2 / ((1/3)^2/2 + (4/3)^2/2) = 50/17
    assert made.estimate == 2.0
    assert made.degrees == pytest.approx(50 / 17)
    assert made.high == pytest.approx(2 + t_quantile(0.975, 50 / 17) * math.sqrt(5 / 3))
    assert not made.decided


def test_one_seed_has_no_interval() -> None:
    made = welch(np.array([1.0]), np.array([0.5, 0.6]))
    assert (made.low, made.p, made.decided) == (None, None, False)


def test_coverage_of_welch_with_three_seeds() -> None:
    rng = np.random.default_rng(3)
    inside = 0
    for _ in range(2_000):
        made = welch(rng.normal(0, 1, 3), rng.normal(0, 2, 3))
        assert made.low is not None
        assert made.high is not None
        inside += made.low <= 0 <= made.high
    assert 0.93 <= inside / 2_000 <= 0.985


def test_bootstrap_and_welch_agree_on_large_groups() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(3, 0.1, 40), rng.normal(2.9, 0.1, 40)
    one, other = welch(a, b), bootstrap(a, b)
    assert one.low is not None
    assert other.low is not None
    assert one.low == pytest.approx(other.low, abs=0.01)


def test_pairing_removes_what_the_seeds_share() -> None:
    shared = np.array([0.0, 0.5, -0.5, 0.2])
    a = 3 + shared
    b = 2.9 + shared + np.array([0.01, -0.01, 0.0, 0.005])
    assert paired(a, b).decided
    assert not welch(a, b).decided


def test_seeds_to_decide_grow_with_the_noise() -> None:
    a, b = np.array([3.0, 3.1, 2.9]), np.array([2.9, 3.0, 2.8])
    few = seeds_to_decide(a, b)
    assert few is not None
    assert few > 3
    rng = np.random.default_rng(1)
    wins = sum(welch(rng.normal(3.0, 0.1, few), rng.normal(2.9, 0.1, few)).decided for _ in range(400))
    assert 0.7 <= wins / 400 <= 0.92  # planned for a power of 0.8
    assert seeds_to_decide(a, a) is None
    assert seeds_to_decide(np.array([1.0]), b) is None
