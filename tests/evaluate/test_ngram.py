"""The n-gram baseline: a probability distribution, the textbook formula, and what it should know."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from umsicht.evaluate.ngram import NgramModel, stream

EOS = 9
VOCAB = 12

documents = st.lists(st.lists(st.integers(0, 8), max_size=12), min_size=1, max_size=12)


def _model(docs: list[list[int]], order: int = 4) -> NgramModel:
    return NgramModel.fit([[*d, EOS] for d in docs], vocab_size=VOCAB, eos_id=EOS, order=order)


@settings(max_examples=60, deadline=None)
@given(documents, st.lists(st.integers(0, 11), max_size=6))
def test_every_context_has_a_distribution(docs: list[list[int]], history: list[int]) -> None:
    p = _model(docs).probabilities([EOS, *history])
    assert p.min() > 0
    assert p.sum() == pytest.approx(1.0, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(documents, st.lists(st.integers(0, 11), min_size=1, max_size=15))
def test_scoring_a_document_equals_asking_token_by_token(docs: list[list[int]], text: list[int]) -> None:
    model = _model(docs)
    scored = model.score([text, [1, 2], text])
    history = [EOS]
    for token, log in zip(text, scored[0], strict=True):
        assert log == pytest.approx(math.log2(model.probabilities(history)[token]), abs=1e-9)
        history.append(token)
    assert np.array_equal(scored[0], scored[2])


def test_the_formula_by_hand() -> None:
    """Bigrams of `a b a c`: continuation counts and absolute discounts, computed on paper."""
    model = NgramModel.fit([[0, 1, 0, 2]], vocab_size=4, eos_id=3, order=2)
    # bigrams: (eos a) (a b) (b a) (a c) (c eos), each once; discounts fall back to 0.5 / 0.75 / 0.9
    # continuation counts: a 2 (after eos, b), b 1, c 1, eos 1; total 5
    mass = (0.75 + 0.5 * 3) / 5
    unigram = {0: (2 - 0.75) / 5 + mass / 4, 1: (1 - 0.5) / 5 + mass / 4}
    after_a = (1 - 0.5) / 2 + (0.5 * 2) / 2 * unigram[1]
    assert model.probabilities([3, 0])[1] == pytest.approx(after_a)
    assert model.probabilities([0])[0] == pytest.approx((0.5 * 2) / 2 * unigram[0])


def test_context_stops_at_the_start_of_a_document() -> None:
    model = _model([[1, 2, 3], [4, 5, 6]] * 5, order=4)
    inside, across = model.probabilities([EOS, 4]), model.probabilities([2, 3, EOS, 4])
    assert np.allclose(inside, across)


def test_it_learns_order_and_not_only_frequency() -> None:
    rng = np.random.default_rng(0)
    cycle = list(itertools.islice(itertools.cycle([1, 2, 3, 4]), 200))
    model = _model([cycle], order=3)
    ordered = -model.log2_probabilities(cycle[:50]).mean()
    shuffled = -model.log2_probabilities(rng.permutation(cycle[:50])).mean()
    assert ordered < 0.2
    assert shuffled > 2.0


def test_a_longer_order_helps_where_there_is_something_to_remember() -> None:
    rng = np.random.default_rng(1)
    table = rng.integers(0, 8, (8, 8))
    text = [0, 1]
    for _ in range(4_000):
        text.append(int(table[text[-2], text[-1]]) if rng.random() < 0.8 else int(rng.integers(8)))
    bits = [-_model([text[:3_000]], order=n).log2_probabilities(text[3_000:]).mean() for n in (1, 2, 3)]
    assert bits[2] < bits[1] < bits[0] + 0.01


@pytest.mark.parametrize("bad", [[-1, 2], [VOCAB]])
def test_ids_out_of_range_are_refused(bad: list[int]) -> None:
    with pytest.raises(ValueError, match="must lie in"):
        NgramModel(np.array(bad), vocab_size=VOCAB, eos_id=EOS)
    with pytest.raises(ValueError, match="must lie in"):
        _model([[1, 2]]).log2_probabilities(bad)


def test_the_stream_separates_documents_once() -> None:
    assert stream([[1, 2], [3, EOS], []], EOS).tolist() == [EOS, 1, 2, EOS, 3, EOS]
