"""Schedules: closed forms at their landmarks, and never outside [0, 1]."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from umsicht.recipe.train import ScheduleSettings
from umsicht.train import Schedule

SHAPES = ["wsd", "cosine", "linear", "constant", "inverse_sqrt", "cycles"]


def schedule(total: int = 100, **changes: object) -> Schedule:
    return Schedule(ScheduleSettings.model_validate({"warmup_steps": 10, **changes}), total)


@pytest.mark.parametrize("shape", SHAPES)
def test_warmup_is_linear_and_ends_at_one(shape: str) -> None:
    s = schedule(shape=shape)
    assert [s.factor(i) for i in range(10)] == pytest.approx([(i + 1) / 10 for i in range(10)])
    assert s.factor(10) == pytest.approx(1.0)


def test_landmarks() -> None:
    assert schedule(shape="cosine").factor(55) == pytest.approx(0.5)
    assert schedule(shape="linear").factor(55) == pytest.approx(0.5)
    assert schedule(shape="linear", floor=0.2).factor(55) == pytest.approx(0.6)
    assert schedule(shape="inverse_sqrt").factor(10 + 30) == pytest.approx(math.sqrt(10 / 40))
    wsd = schedule(shape="wsd", decay_share=0.4)
    assert wsd.decay_start == 60 and wsd.factor(59) == 1.0 and wsd.factor(80) == pytest.approx(0.5)
    assert schedule(shape="wsd", decay_share=0.4, decay="sqrt").factor(70) == pytest.approx(0.5)
    cycles = schedule(shape="cycles", cycles=3, cycle_decay=0.5)
    assert cycles.factor(40) == pytest.approx(0.5) and cycles.factor(70) == pytest.approx(0.25)


@given(
    st.sampled_from(SHAPES),
    st.integers(1, 400),
    st.floats(0, 1),
    st.floats(0, 1),
    st.floats(0, 1),
    st.integers(0, 500),
)
def test_factor_stays_in_bounds(
    shape: str, total: int, warmup: float, decay: float, floor: float, step: int
) -> None:
    settings = ScheduleSettings.model_validate(
        {"shape": shape, "warmup_share": warmup, "decay_share": decay, "floor": floor}
    )
    value = Schedule(settings, total).factor(step)
    assert 0 < value <= 1 or (floor == 0 and 0 <= value <= 1)


def test_no_update_has_rate_zero() -> None:
    for shape in SHAPES:
        s = schedule(shape=shape)
        assert all(s.factor(i) > 0 for i in range(100)), shape


def test_it_can_be_drawn() -> None:
    lines = schedule(shape="wsd").draw(width=40, height=4).splitlines()
    assert len(lines) == 4 and all(len(line) == 45 for line in lines)
    assert lines[0].count("█") >= 18
