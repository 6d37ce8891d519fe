"""Context figures against counting by hand, and the planted mistake of a context that nothing fills."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from umsicht.model import derive
from umsicht.plan.context import (
    MAX_ATTENTION,
    PACKINGS,
    analyse,
    findings,
    first_fit_decreasing,
    pack,
    share_beyond,
)
from umsicht.recipe.model import ModelSettings
from umsicht.tokens.data import Split
from umsicht.tokens.layout import BestFit

LENGTHS = st.lists(st.integers(1, 300), min_size=1, max_size=60).filter(lambda x: sum(x) > 2).map(np.asarray)


def split_of(lengths) -> Split:
    lengths = np.asarray(lengths, dtype=np.int64)
    none = np.zeros(len(lengths), np.int32)
    starts = np.cumsum(lengths) - lengths
    return Split(
        "train",
        (np.zeros(int(lengths.sum()), np.uint16),),
        none,
        starts,
        lengths,
        none,
        none,
        lengths * 4,
        ["a.en"],
        ["a"],
    )


def config_of(seq_len):
    return derive(ModelSettings(d_model=64), 1000, seq_len=seq_len)


@given(lengths=LENGTHS, context=st.integers(0, 200))
@settings(max_examples=80, deadline=None)
def test_share_beyond_is_what_counting_gives(lengths, context):
    counted = sum(1 for n in lengths for place in range(n) if place >= context)
    assert share_beyond(lengths, context) == pytest.approx(counted / lengths.sum())


@given(lengths=LENGTHS, seq_len=st.integers(8, 128), packing=st.sampled_from(PACKINGS))
@settings(max_examples=120, deadline=None)
def test_shares_are_shares(lengths, seq_len, packing):
    figures = pack(lengths, seq_len, packing)
    for value in (figures.padding, figures.cropped, figures.documents_cut, figures.filled):
        assert 0 <= value <= 1
    if packing != "one-a-row":
        assert figures.cropped == pytest.approx(0, abs=1e-12)
    else:
        lost = sum(max(0, n - seq_len - 1) for n in lengths)
        assert figures.cropped == pytest.approx(lost / lengths.sum())


@given(lengths=LENGTHS, seq_len=st.integers(8, 128))
@settings(max_examples=80, deadline=None)
def test_fitting_packings_leave_at_most_one_row_less_than_half_full(lengths, seq_len):
    chunks = BestFit(np.arange(len(lengths)), lengths, seq_len)._lengths
    capacity = seq_len + 1
    for rows in (pack(lengths, seq_len, "best-fit").rows, first_fit_decreasing(chunks, capacity)):
        assert -(-int(chunks.sum()) // capacity) <= rows <= 2 * int(chunks.sum()) / capacity + 1


def test_a_context_that_nothing_fills_is_named():
    report = analyse(split_of([120] * 500), config_of(2048))
    found = {finding.id: finding for finding in findings(report, config_of(2048), "concatenate")}
    assert found["CONTEXT/unfilled"].numbers["share"] == 0
    assert report.recommended_seq_len == 128
    assert report.attention_share[2048] > report.attention_share[128]


def test_long_documents_carry_a_long_context():
    report = analyse(split_of([20_000] * 20), config_of(2048))
    assert report.filled_seq_len >= 16_384
    assert not [f for f in findings(report, config_of(2048), "concatenate") if f.id == "CONTEXT/unfilled"]


def test_a_small_model_is_not_advised_a_context_that_is_mostly_attention():
    documents = split_of([20_000] * 20)
    small, large = (
        analyse(documents, derive(ModelSettings(d_model=d), 1000, seq_len=1024)) for d in (64, 2048)
    )
    assert (
        small.recommended_seq_len < large.recommended_seq_len <= large.filled_seq_len == small.filled_seq_len
    )
    assert small.attention_share[small.recommended_seq_len] <= MAX_ATTENTION


def test_padding_is_named():
    report = analyse(split_of([300] * 200), config_of(512))
    found = {finding.id for finding in findings(report, config_of(512), "best-fit")}
    assert "CONTEXT/padding" in found
    assert "CONTEXT/padding" not in {f.id for f in findings(report, config_of(512), "concatenate")}
    assert report.recommended_packing in ("concatenate", "best-fit")


def test_lengths_are_reported_by_slice():
    report = analyse(split_of([10, 20, 30, 40, 1000]), config_of(64))
    assert report.quantiles["a.en"]["median"] == 30
    assert report.quantiles["all"]["largest"] == 1000
    assert report.to_dict()["beyond"]["64"] == report.beyond[64]
