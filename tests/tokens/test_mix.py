"""The realised mix against the declared one."""

import pytest
from counting import EOS, make_split

from umsicht.recipe.tokens import MixSettings, PhaseSettings
from umsicht.tokens.mix import realised
from umsicht.tokens.packed import PackedSource

SPLIT = make_split([200] * 20 + [30] * 50 + [9] * 100, sources=[0] * 20 + [1] * 50 + [2] * 100)


def shares_of(mix, steps=200, **changes):
    source = PackedSource(
        SPLIT, seq_len=16, batch_tokens=128, eos_id=EOS, mix=mix, total_steps=steps, **changes
    )
    return realised(source, steps)


@pytest.mark.parametrize(
    "shares", [{"source0": 5, "source1": 3, "source2": 2}, {"source0": 0.01, "source2": 0.99}]
)
def test_declared_shares_are_realised_within_the_interval(shares):
    found = shares_of(MixSettings(shares=shares))
    total = sum(shares.values())
    assert set(found) == set(shares)
    for name, one in found.items():
        assert one.declared == pytest.approx(shares[name] / total)
        assert one.realised == pytest.approx(one.declared, abs=0.003)
        assert one.low <= one.declared <= one.high


def test_phases_are_weighted_by_their_length():
    mix = MixSettings(
        phases=[
            PhaseSettings(until=0.75, shares={"source0": 1}),
            PhaseSettings(until=1.0, shares={"source0": 1, "source1": 1}),
        ]
    )
    found = shares_of(mix)
    assert found["source1"].declared == pytest.approx(0.125)
    assert found["source1"].realised == pytest.approx(0.125, abs=0.005)


def test_passes_over_a_small_part_are_counted():
    found = shares_of(MixSettings(shares={"source2": 1}))
    assert found["source2"].epochs == pytest.approx(200 * 8 / -(-899 // 16))


@pytest.mark.parametrize("order", [("source0", "source1"), ("source1", "source0"), ("source2", "source0")])
def test_a_part_may_leave_or_join_at_a_phase(order):
    mix = MixSettings(
        phases=[
            PhaseSettings(until=0.5, shares={order[0]: 1}),
            PhaseSettings(until=1.0, shares={order[1]: 1}),
        ]
    )
    found = shares_of(mix)
    assert {name: one.realised for name, one in found.items()} == {name: pytest.approx(0.5) for name in order}
