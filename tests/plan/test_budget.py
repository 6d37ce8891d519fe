"""The bill, and the mistakes that it must name."""

import pytest

from umsicht.plan.budget import Workload, bill, check, effective_tokens
from umsicht.recipe.plan import PlanSettings

WORK = Workload(
    steps=3600,
    step_s=1.0,
    evaluations=10,
    evaluation_s=6.0,
    checkpoints=6,
    checkpoint_s=10.0,
    checkpoint_bytes=2_000_000_000,
    kept_checkpoints=3,
    start_s=20.0,
    steps_between_checkpoints=600,
)


def settings(**changes):
    return PlanSettings(**{"reserve": 0.0, **changes})


def ids(found):
    return {finding.id: finding for finding in found}


def found_for(data=1e9, seen=1e9, parameters=50_000_000, **changes):
    return ids(
        check(
            WORK,
            settings(**changes),
            tokens_seen=seen,
            usable_tokens=data,
            parameters=parameters,
            largest_fit=lambda s: ("d_model 64", 1000),
        )
    )


def test_every_part_is_on_the_bill():
    cost = bill(
        WORK,
        settings(
            restarts=2,
            repeats=3,
            reserve=0.1,
            devices=4,
            price_per_device_hour=2.0,
            device_watts=500,
            price_per_kwh=0.3,
            price_per_gb_month=0.1,
        ),
    )
    training = 20 + 3600 + 60 + 60
    restart = 600 + 20 + 10
    total = (training + 2 * restart) * 3 * 1.1
    assert cost.training_s == training
    assert cost.total_s == pytest.approx(total)
    assert cost.device_hours == pytest.approx(4 * total / 3600)
    assert cost.money_devices == pytest.approx(8 * total / 3600)
    assert cost.energy_kwh == pytest.approx(2 * total / 3600)
    assert cost.storage_bytes == 18_000_000_000
    assert cost.money_storage == pytest.approx(1.8)
    assert cost.money == pytest.approx(cost.money_devices + cost.money_energy + cost.money_storage)


def test_a_budget_without_restart_is_named():
    assert found_for(restarts=0)["BUDGET/no-restart"].grade == "warn"
    assert "BUDGET/no-restart" not in found_for(restarts=1)


def test_a_budget_that_one_restart_breaks_closes_the_gate():
    training_h, restart_h = WORK.training_s / 3600, WORK.restart_s / 3600
    found = found_for(device_hours=training_h + 0.5 * restart_h)
    assert found["BUDGET/restart-not-covered"].grade == "stop"
    assert found["BUDGET/restart-not-covered"].numbers["fits"] == "d_model 64"
    assert not found_for(device_hours=training_h + 1.01 * restart_h)


def test_a_restart_is_asked_for_even_where_the_recipe_wants_none():
    found = found_for(restarts=0, device_hours=WORK.training_s / 3600 * 1.001)
    assert "BUDGET/restart-not-covered" in found


def test_a_budget_below_the_bare_training_is_named_as_such():
    assert "BUDGET/training-not-covered" in found_for(device_hours=0.5)
    assert "BUDGET/training-not-covered" in found_for(money=1.0, price_per_device_hour=2.0)


@pytest.mark.parametrize(
    ("data", "seen", "parameters", "slug"),
    [
        (1e6, 5e6, 10_000, "BUDGET/too-many-epochs"),
        (1e6, 3e6, 1_000_000, "BUDGET/tokens-do-not-fit-size"),
        (1e9, 1e6, 1_000_000, "BUDGET/under-trained"),
    ],
)
def test_data_and_size_must_fit(data, seen, parameters, slug):
    assert set(found_for(data=data, seen=seen, parameters=parameters)) == {slug}


def test_repeated_tokens_are_worth_less_and_less():
    assert effective_tokens(100, 50) == 50
    assert effective_tokens(100, 100) == 100
    assert effective_tokens(100, 400) == pytest.approx(100 + 100 * 15.39 * (1 - 2.718281828 ** (-3 / 15.39)))
    assert 350 < effective_tokens(100, 400) < 400
    assert effective_tokens(100, 10_000) < 100 * (1 + 15.39)
