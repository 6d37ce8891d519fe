"""Bits per byte from sums, and text that depends on its seed alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from model.small import small_config, stirred
from umsicht.score import SamplingRule, document_nats, generate, of_logits, of_transformer, score_split


class Documents:
    """Five documents in two slices."""

    def __init__(self, seed=0):
        rng = np.random.default_rng(seed)
        self.texts = [rng.integers(0, 120, size=n).astype(np.uint16) for n in (3, 40, 71, 1, 26)]
        self.document_bytes = np.array([9, 120, 200, 0, 70])
        self.n_documents = 5

    def document(self, number):
        return self.texts[number]

    def slice_of(self, number):
        return ["prose.de", "code.en"][number % 2]


@pytest.fixture(scope="module")
def model():
    return stirred(small_config("fast"))


def by_hand(model, document, window, stride):
    """Nats of each token, one at a time, each with the context that its window leaves it."""
    ids = [7, *document.tolist()]
    nats, done, start = [], 0, 0
    while done < len(document):
        end = min(start + window, len(document))
        logits = model(torch.tensor([ids[start:end]]))[0].log_softmax(-1)
        nats += [-float(logits[i - start, ids[i + 1]]) for i in range(done, end)]
        done, start = end, start + stride
    return np.array(nats)


@pytest.mark.parametrize(("window", "stride"), [(32, 32), (32, 8), (100, 100), (5, 1)])
def test_each_token_is_scored_once_with_its_context(model, window, stride):
    documents = Documents().texts
    for nats_of in (of_transformer(model), of_logits(model)):
        got = document_nats(nats_of, documents, prefix=7, window=window, stride=stride, batch_tokens=70)
        for document, nats in zip(documents, got, strict=True):
            with torch.no_grad():
                np.testing.assert_allclose(nats, by_hand(model, document, window, stride), atol=2e-5)


def test_slices_are_sums_and_the_total_is_not_a_mean_of_means(model):
    split = Documents()
    model.train()
    score = score_split(model, split, seq_len=32, prefix=7)
    assert model.training
    model.eval()
    nats = document_nats(of_transformer(model), split.texts, prefix=7, window=32)
    assert score["prose.de"].nats == pytest.approx(sum(float(nats[i].sum()) for i in (0, 2, 4)))
    assert (score["prose.de"].tokens, score["prose.de"].bytes, score["prose.de"].documents) == (100, 279, 3)
    assert score.total.tokens == 141
    assert score.bpb == pytest.approx(sum(float(n.sum()) for n in nats) / math.log(2) / 399)


def test_protocol_tells_data_window_and_stride_apart(model):
    def protocol(**changes):
        arguments = {"seq_len": 32, "prefix": 7, "stride": 32, **changes}
        return score_split(model, arguments.pop("split", Documents()), **arguments).protocol.digest

    assert protocol() == protocol()
    assert len({protocol(), protocol(seq_len=64), protocol(stride=8), protocol(split=Documents(1))}) == 4


def test_stride_beyond_the_window_is_refused(model):
    with pytest.raises(ValueError, match="stride"):
        document_nats(of_transformer(model), Documents().texts, prefix=7, window=8, stride=9)


RULES = {"temperature": 0.8, "top_p": 0.9, "top_k": 40, "min_p": 0.01, "repetition_penalty": 1.2}


def test_cached_and_uncached_text_are_equal_and_follow_the_seed(model):
    def foreign(ids):
        return model(ids)[..., :120]

    cached = list(generate(model, [1, 2, 3], max_new_tokens=25, seed=3, **RULES))
    assert cached == list(generate(foreign, [1, 2, 3], max_new_tokens=25, seed=3, **RULES))
    assert cached != list(generate(model, [1, 2, 3], max_new_tokens=25, seed=4, **RULES))


def test_text_goes_on_beyond_the_trained_context_and_never_leaves_the_vocabulary(model):
    text = list(generate(model, list(range(50)), max_new_tokens=80, temperature=3.0))
    assert len(text) == 80 and max(text) < 120


def test_a_stop_id_is_given_out_and_ends_the_text(model):
    free = list(generate(model, [1], max_new_tokens=20, temperature=0.0))
    assert (
        list(generate(model, [1], max_new_tokens=20, temperature=0.0, stop_ids=[free[4]]))
        == free[: free.index(free[4]) + 1]
    )


def test_generation_puts_the_training_mode_back(model):
    model.train()
    stream = generate(model, [1], max_new_tokens=3)
    next(stream)
    assert model.training
    model.eval()


def test_rules_keep_exactly_the_tokens_they_name():
    logits = torch.log(torch.tensor([0.5, 0.25, 0.15, 0.07, 0.03]))

    def kept(**rule):
        return torch.isfinite(SamplingRule(**rule).filtered(logits)).nonzero().flatten().tolist()

    assert kept(top_k=2) == [0, 1]
    assert kept(top_p=0.74) == [0, 1] and kept(top_p=0.76) == [0, 1, 2] and kept(top_p=0.01) == [0]
    assert kept(min_p=0.25) == [0, 1, 2]
    assert SamplingRule(temperature=0.0).draw(logits, torch.Generator()) == 0


def test_draws_follow_the_probabilities():
    logits = torch.log(torch.tensor([0.6, 0.3, 0.1]))
    generator = torch.Generator().manual_seed(0)
    counts = np.bincount([SamplingRule().draw(logits, generator) for _ in range(4000)], minlength=3)
    np.testing.assert_allclose(counts / 4000, [0.6, 0.3, 0.1], atol=0.03)


@pytest.mark.parametrize(
    "rule", [{"temperature": -1}, {"top_p": 0}, {"top_k": -1}, {"min_p": 2}, {"repetition_penalty": 0}]
)
def test_rules_out_of_range_are_named(rule):
    with pytest.raises(ValueError, match=next(iter(rule))):
        SamplingRule(**rule)


def test_an_empty_prompt_is_refused(model):
    with pytest.raises(ValueError, match="at least one token"):
        generate(model, [], max_new_tokens=1)
