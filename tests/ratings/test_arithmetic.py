"""Agreement, shares and strengths: textbook figures, oracle packages where they are installed, and properties."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from umsicht.ratings import agreement, bradley_terry, intervals
from umsicht.ratings.bradley_terry import Comparison

# Krippendorff (2011), section C: four observers, twelve units; published results.
PUBLISHED = [
    [1, 1, 1], [2, 2, 3, 2], [3, 3, 3, 3], [3, 3, 3, 3], [2, 2, 2, 2], [1, 2, 3, 4],
    [4, 4, 4, 4], [1, 1, 2, 1], [2, 2, 2, 2], [5, 5, 5], [1, 1], [3],
]  # fmt: skip


@pytest.mark.parametrize(("level", "value"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_alpha_equals_the_published_example(level: agreement.Level, value: float) -> None:
    assert agreement.alpha(PUBLISHED, level) == pytest.approx(value, abs=0.0005)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(1, 5), max_size=4), min_size=2, max_size=15))
def test_alpha_equals_the_krippendorff_package(units: list[list[int]]) -> None:
    krippendorff = pytest.importorskip("krippendorff")
    table = np.full((4, len(units)), np.nan)
    for i, unit in enumerate(units):
        table[: len(unit), i] = unit
    pairable = [u for u in units if len(u) >= 2]
    if len({v for u in pairable for v in u}) < 2:
        assert agreement.alpha(units, "ordinal") is None
        return
    for level in ("nominal", "ordinal", "interval"):
        oracle = krippendorff.alpha(reliability_data=table, level_of_measurement=level)
        assert agreement.alpha(units, level) == pytest.approx(oracle, abs=1e-9)


def test_alpha_is_one_for_equals_and_about_zero_for_chance() -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(1, 6, 400)
    assert agreement.alpha([[v, v] for v in values], "ordinal") == 1.0
    chance = [[int(a), int(b)] for a, b in rng.integers(1, 6, (2_000, 2))]
    assert agreement.alpha(chance, "ordinal") == pytest.approx(0.0, abs=0.06)
    assert agreement.alpha([[3, 3], [3, 3]], "ordinal") is None
    assert agreement.alpha([[3], [4]], "ordinal") is None


def test_alpha_interval_covers_the_value() -> None:
    rng = np.random.default_rng(1)
    true = rng.normal(size=120)
    noisy = np.clip(np.round(3 + true[:, None] + 0.5 * rng.normal(size=(120, 3))), 1, 5)
    value = agreement.alpha(noisy.tolist(), "ordinal")
    interval = agreement.bootstrap(noisy.tolist(), "ordinal")
    assert value is not None
    assert interval is not None
    assert interval[0] < value < interval[1]
    assert interval[1] - interval[0] < 0.3


def test_kappa_by_hand() -> None:
    first = dict(enumerate("aaaabbbbab"))
    second = dict(enumerate("aaabbbbbab"))
    observed, chance = 0.9, 0.5 * 0.4 + 0.5 * 0.6
    assert agreement.kappa(first, second) == pytest.approx((observed - chance) / (1 - chance))
    assert agreement.kappa({1: "a"}, {1: "a"}) is None


@pytest.mark.parametrize(
    ("k", "n", "p"), [(0, 10, 0.5), (8, 10, 0.5), (50, 100, 0.5), (3, 20, 0.3), (0, 0, 0.5)]
)
def test_binomial_test_equals_adding_up_by_hand(k: int, n: int, p: float) -> None:
    chance = [math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(n + 1)]
    expected = sum(c for c in chance if c <= chance[k] * (1 + 1e-7))
    assert intervals.binomial_test(k, n, p) == pytest.approx(min(1.0, expected), abs=1e-12)


def test_wilson_known_figures() -> None:
    low, high = intervals.wilson(15, 50)
    assert (low, high) == (pytest.approx(0.1910, abs=1e-4), pytest.approx(0.4375, abs=1e-4))
    assert intervals.wilson(0, 0) == (0.0, 1.0)
    assert intervals.wilson(10, 10)[1] == 1.0


def test_fifty_pairs_cannot_show_less_than_about_seventy_thirty() -> None:
    plan = intervals.plan(50)
    assert plan.odds in ("70/30", "71/29")
    assert intervals.plan(50, ties=0.3).detectable > plan.detectable
    assert intervals.plan(4).detectable is None
    assert intervals.plan(4).odds == "—"


@pytest.mark.parametrize("preference", [0.6, 0.65, 0.75, 0.9])
def test_planned_size_has_the_power_it_promises(preference: float) -> None:
    n = intervals.pairs_needed(preference)
    assert intervals.power(n, preference) >= 0.8
    rng = np.random.default_rng(0)
    won = rng.binomial(n, preference, 4_000)
    found = np.mean([intervals.binomial_test(int(k), n) <= 0.05 for k in won])
    assert found == pytest.approx(intervals.power(n, preference), abs=0.03)
    assert intervals.pairs_needed(preference, ties=0.5) >= 2 * n - 1


@pytest.mark.parametrize("preference", [0.5, 0.3, 1.2])
def test_impossible_wishes_are_refused(preference: float) -> None:
    with pytest.raises(ValueError, match="preference"):
        intervals.pairs_needed(preference)


@pytest.mark.parametrize("power", [0.0, 1.0, 2.0])
def test_a_power_that_no_number_of_pairs_gives_is_refused(power: float) -> None:
    with pytest.raises(ValueError, match="power"):
        intervals.pairs_needed(0.65, wanted_power=power)


def test_two_systems_strength_is_the_log_odds() -> None:
    rng = np.random.default_rng(0)
    won = rng.random(400) < 0.7
    comparisons = [Comparison("a", "b", float(w), str(i)) for i, w in enumerate(won)]
    first, second = bradley_terry.strengths(comparisons, virtual=0.0, draws=200)
    share = won.mean()
    assert (first.system, second.system) == ("a", "b")
    assert first.log - second.log == pytest.approx(math.log(share / (1 - share)), abs=1e-6)
    assert first.beats["b"] == pytest.approx(share, abs=1e-6)
    assert first.low < first.log < first.high


def test_strengths_maximise_the_likelihood() -> None:
    rng = np.random.default_rng(3)
    table = rng.integers(1, 20, (4, 4)).astype(float)
    np.fill_diagonal(table, 0)
    fitted = bradley_terry.fit(table)

    def likelihood(log: np.ndarray) -> float:
        return float(-(table * np.log1p(np.exp(log[None, :] - log[:, None]))).sum())

    best = likelihood(fitted)
    for _ in range(200):
        assert likelihood(fitted + 0.05 * rng.normal(size=4)) <= best + 1e-9


def test_strengths_equal_choix() -> None:
    choix = pytest.importorskip("choix")
    rng = np.random.default_rng(4)
    data = [tuple(rng.choice(4, 2, replace=False)) for _ in range(300)]
    comparisons = [Comparison(f"s{w}", f"s{x}", 1.0, str(i)) for i, (w, x) in enumerate(data)]
    own = bradley_terry.fit(bradley_terry.wins(comparisons, [f"s{i}" for i in range(4)]))
    oracle = choix.mm_pairwise(4, data, tol=1e-12)
    assert np.allclose(own, oracle - oracle.mean(), atol=1e-6)


def test_a_system_that_never_lost_needs_a_prior() -> None:
    comparisons = [Comparison("a", "b", 1.0, str(i)) for i in range(10)]
    with pytest.raises(ValueError, match="finite"):
        bradley_terry.fit(bradley_terry.wins(comparisons, ["a", "b"]))
    (first, _) = bradley_terry.strengths(comparisons, draws=50)
    assert 0.9 < first.beats["b"] < 1.0
