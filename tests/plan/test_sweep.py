"""The search for rate and batch: finds a known optimum, and carries it over widths as far as it was measured."""

import math

import pytest

from umsicht.model import derive
from umsicht.plan.sweep import best_factor, carry, scaled, search
from umsicht.plan.trial import Trial
from umsicht.recipe.model import ModelSettings
from umsicht.recipe.train import TrainSettings
from umsicht.train.groups import resolved_rates


@pytest.mark.parametrize("optimum", [0.3, 0.75, 1.0, 1.9, 4.0])
def test_the_best_rate_is_found_to_a_small_part_of_a_doubling(optimum):
    asked = []

    def score(factor):
        asked.append(factor)
        return 2.0 + 0.1 * (math.log2(factor) - math.log2(optimum)) ** 2

    assert best_factor(score, 1.0) == pytest.approx(optimum, rel=0.02)
    assert len(asked) == len(set(asked)) <= 5


def test_a_search_ends_where_scores_fall_for_ever():
    assert best_factor(lambda factor: -factor, 1.0) == 8.0


def test_optima_half_a_doubling_apart_count_as_one():
    assert carry(64, 1.0, 128, 1.3, 512) == (0.0, pytest.approx(math.sqrt(1.3)))
    assert carry(64, 1.0, 64, 1.0, 512) == (0.0, 1.0)


def test_a_rate_that_falls_with_width_falls_on():
    slope, factor = carry(64, 1.0, 128, 0.5, 256)
    assert slope == pytest.approx(-1.0)
    assert factor == pytest.approx(0.25)


def test_all_rates_are_multiplied():
    changed = resolved_rates(scaled(TrainSettings(), 2.0).optimizer)
    assert changed == {role: 2 * rate for role, rate in resolved_rates(TrainSettings().optimizer).items()}


def test_a_search_names_what_to_set():
    """A made-up family: the best matrix rate is 0.03 at every width, half the batch is clearly better at equal tokens."""
    train = TrainSettings(global_batch_tokens=512)
    small, large = (derive(ModelSettings(d_model=width, seq_len=64), 300) for width in (32, 64))

    def run(config, named, steps):
        rate = resolved_rates(named.optimizer)["matrix"] / math.sqrt(named.global_batch_tokens / 512)
        score = 2 + 0.2 * math.log2(rate / 0.03) ** 2 + 0.1 * math.log2(named.global_batch_tokens / 256)
        tokens = steps * named.global_batch_tokens
        return Trial(config.d_model, 1, 1, 1, tokens, named.global_batch_tokens, 8,
                     0.1, 0.1, 0.0, 1.0, 1.0, 0.0, 0, 0.0, 0, {"all": score}, score)  # fmt: skip

    found = search(train, small, large, 128, 60.0, run)
    assert found.carries
    assert found.rates["matrix"] == pytest.approx(0.03, rel=0.05)
    assert found.batch_tokens == 256
    assert {one.tokens for one in found.tries} == {found.tries[0].tokens}
    assert f"train.global_batch_tokens={found.batch_tokens}" in found.overrides()
