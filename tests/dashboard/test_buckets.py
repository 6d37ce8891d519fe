"""No spike is lost, and what is complete never moves."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from umsicht.dashboard.buckets import bucket_width, polyline, reduce

VALUES = st.lists(st.floats(-1e6, 1e6, allow_nan=False), min_size=1, max_size=300)


@given(VALUES, st.sampled_from([1.0, 2.0, 4.0, 64.0]))
def test_every_bucket_keeps_its_smallest_and_largest_value(values: list[float], width: float) -> None:
    x = np.arange(len(values), dtype=np.float64)
    made = reduce(x, np.array(values), width)
    for place, bucket in enumerate(made.index):
        inside = [v for step, v in enumerate(values) if step // width == bucket]
        assert {made.first[place], made.second[place]} == {min(inside), max(inside)}
        assert made.last[place] == inside[-1]
        if min(inside) != max(inside):
            assert inside.index(made.first[place]) <= inside.index(made.second[place])


@given(VALUES, VALUES, st.sampled_from([1.0, 4.0, 16.0]))
def test_complete_buckets_do_not_move_when_rows_are_appended(
    old: list[float], new: list[float], width: float
) -> None:
    before = reduce(np.arange(len(old), dtype=np.float64), np.array(old), width)
    both = np.array(old + new)
    after = reduce(np.arange(len(both), dtype=np.float64), both, width)
    complete = int(len(old) // width)
    assert before.index[:complete].tolist() == after.index[:complete].tolist()
    assert before.first[:complete].tolist() == after.first[:complete].tolist()
    assert before.second[:complete].tolist() == after.second[:complete].tolist()


@settings(max_examples=50)
@given(st.floats(0, 1e9), st.floats(1, 1e12), st.integers(16, 2000))
def test_the_width_is_a_power_of_two_that_needs_no_more_buckets_than_pixels(
    x0: float, span: float, pixels: int
) -> None:
    width = bucket_width(x0, x0 + span, pixels)
    assert width >= 1 and np.log2(width) == np.round(np.log2(width))
    assert span / width <= pixels * (1 + 1e-9)
    assert width == 1 or span / (width / 2) > pixels * (1 - 1e-9)


def test_planted_spikes_survive_any_reduction() -> None:
    y = np.zeros(100_000)
    spikes = [17, 4_321, 50_000, 99_998]
    y[spikes] = 9.0
    _, drawn = polyline(reduce(np.arange(100_000, dtype=np.float64), y, 1024.0))
    assert int((drawn == 9.0).sum()) == len(spikes)


def test_points_without_a_place_are_left_out_and_unsorted_x_is_put_in_order() -> None:
    made = reduce(np.array([3.0, 1.0, np.nan, 2.0]), np.array([30.0, 10.0, 99.0, np.inf]), 1.0)
    assert made.index.tolist() == [1, 3] and made.first.tolist() == [10.0, 30.0] and made.n_points == 2


def test_a_width_of_one_keeps_x_exact() -> None:
    xs, ys = polyline(reduce(np.array([5.0, 6.0, 9.0]), np.array([1.0, 2.0, 3.0]), 1.0))
    assert xs.tolist() == [5.0, 6.0, 9.0] and ys.tolist() == [1.0, 2.0, 3.0]
