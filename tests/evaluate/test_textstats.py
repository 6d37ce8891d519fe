"""Counts of outputs: known texts, known figures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from umsicht.evaluate.textstats import distinct, loop_tokens, measure


def test_known_figures() -> None:
    assert distinct([1, 2, 1, 2], 1) == 0.5
    assert distinct([1, 2, 1, 2], 2) == pytest.approx(2 / 3)
    assert distinct([], 2) == 1.0
    stats = measure([1, 2, 3, 4, 1, 2, 3, 4])
    assert stats.repetition == pytest.approx(1 - 4 / 5)


def test_loops_are_found_at_the_end_only() -> None:
    assert loop_tokens([7, 8, 1, 2, 1, 2, 1, 2]) == 6
    assert loop_tokens([1, 2, 1, 2, 1, 2, 7, 8]) == 0
    assert loop_tokens([5, 6, 6, 6, 6]) == 4
    assert loop_tokens([6, 6]) == 0


@given(st.lists(st.integers(0, 3), max_size=60))
def test_shares_stay_shares(tokens: list[int]) -> None:
    stats = measure(tokens)
    assert 0 <= stats.repetition <= 1
    assert 0 <= stats.loop_tokens <= len(tokens)
    assert 0 < min(stats.distinct_1, stats.distinct_2, stats.distinct_3) <= 1
