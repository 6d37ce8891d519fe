"""The keyed permutation: a bijection for every size, and a fixed function of its key."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from umsicht.tokens.permutation import Permutation, derive_key


@given(n=st.integers(1, 5000), key=st.integers(0, 2**64 - 1))
@settings(max_examples=150, deadline=None)
def test_every_index_comes_exactly_once(n, key):
    assert np.array_equal(np.sort(Permutation(n, key).all()), np.arange(n))


@pytest.mark.parametrize("n", [1023, 1024, 1025, 4096, 4097, 65_537, 1_000_003])
def test_it_is_a_bijection_at_the_edges_of_the_network(n):
    assert np.array_equal(np.sort(Permutation(n, 7).all()), np.arange(n))


@given(n=st.integers(1, 10**12), key=st.integers(0, 2**64 - 1), data=st.data())
@settings(max_examples=60, deadline=None)
def test_one_index_at_a_time_equals_many_at_once(n, key, data):
    indices = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=20, unique=True))
    permutation = Permutation(n, key)
    together = permutation(np.asarray(indices))
    assert [permutation.one(index) for index in indices] == together.tolist()
    assert len(set(together.tolist())) == len(indices)
    assert together.min() >= 0
    assert together.max() < n


def test_the_order_is_the_same_on_every_machine():
    assert Permutation(10, 1).all().tolist() == GOLDEN_10
    assert Permutation(5000, 1)(np.arange(5)).tolist() == GOLDEN_5000


def test_neighbours_are_not_correlated():
    n = 20_000
    order = Permutation(n, 3).all().astype(float)
    other = Permutation(n, 4).all().astype(float)
    assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 0.03
    assert abs(np.corrcoef(order, other)[0, 1]) < 0.03
    assert abs(np.corrcoef(order, np.arange(n))[0, 1]) < 0.03


def test_small_sizes_reach_every_order():
    seen = {tuple(Permutation(4, key).all().tolist()) for key in range(2000)}
    assert len(seen) == 24


@pytest.mark.parametrize("index", [-1, 100])
def test_an_index_outside_is_refused(index):
    with pytest.raises(IndexError):
        Permutation(100, 0)(index)


def test_keys_depend_on_the_order_of_their_parts():
    assert derive_key(1, 2) != derive_key(2, 1)


GOLDEN_10 = [9, 0, 3, 5, 1, 7, 6, 2, 8, 4]
GOLDEN_5000 = [1624, 156, 243, 3125, 3130]
