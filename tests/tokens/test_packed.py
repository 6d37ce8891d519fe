"""Rows, order and mix: nothing lost, nothing twice, nothing that depends on the number of ranks."""

from collections import Counter

import numpy as np
import pytest
import torch
from counting import EOS, make_split
from hypothesis import given, settings
from hypothesis import strategies as st

from umsicht.findings import UserError
from umsicht.recipe.tokens import MixSettings, PhaseSettings
from umsicht.tokens.batch import IGNORE
from umsicht.tokens.packed import PackedSource

LENGTHS = st.lists(st.integers(1, 60), min_size=1, max_size=40).filter(lambda lengths: sum(lengths) >= 2)


def source_of(split, **changes):
    return PackedSource(split, **{"seq_len": 8, "batch_tokens": 32, "eos_id": EOS, "seed": 3, **changes})


def epoch_rows(source, epoch=0):
    first = epoch * source.total_rows
    rows = []
    for row in range(first, first + source.total_rows):
        step, place = divmod(row, source.rows_per_batch)
        rows.append(source.batch(step).slice(place, place + 1))
    return rows


@given(lengths=LENGTHS, seq_len=st.integers(2, 20), packing=st.sampled_from(["concatenate", "best-fit"]))
@settings(max_examples=60, deadline=None)
def test_every_token_is_a_target_once_in_an_epoch(lengths, seq_len, packing):
    split = make_split(lengths)
    source = source_of(split, seq_len=seq_len, batch_tokens=seq_len, packing=packing)
    for epoch in (0, 1):
        targets = Counter()
        for row in epoch_rows(source, epoch):
            targets.update(row.targets[row.targets != IGNORE].tolist())
        everything = Counter(np.concatenate([split.document(i) for i in range(split.n_documents)]).tolist())
        missing = everything - targets
        assert not targets - everything
        # Concatenated rows never predict the first token of the stream, best-fit rows never the first of a document.
        assert sum(missing.values()) == (1 if packing == "concatenate" else split.n_documents)


@given(lengths=LENGTHS, packing=st.sampled_from(["concatenate", "best-fit"]))
@settings(max_examples=60, deadline=None)
def test_a_target_is_the_next_token_of_the_same_stream(lengths, packing):
    source = source_of(make_split(lengths), batch_tokens=8, packing=packing)
    for row in epoch_rows(source):
        inputs, targets, documents = row.inputs[0], row.targets[0], row.document_ids[0]
        for place in range(7):
            if targets[place] != IGNORE:
                assert targets[place] == inputs[place + 1]
                if documents[place] == documents[place + 1]:
                    assert targets[place] in (inputs[place] + 1, EOS)


@given(
    lengths=st.lists(st.integers(1, 30), min_size=3, max_size=40),
    world=st.sampled_from([1, 2, 4]),
    micro=st.integers(1, 5),
)
@settings(max_examples=40, deadline=None)
def test_ranks_and_micro_batches_tile_the_global_batch(lengths, world, micro):
    source = source_of(make_split([*lengths, 50]))
    whole = source.batch(5)
    parts = [part for rank in range(world) for part in source.micro_batches(5, micro, rank, world)]
    for field in ("inputs", "targets", "document_ids", "rows"):
        assert torch.equal(torch.cat([getattr(part, field) for part in parts]), getattr(whole, field))
    assert all(len(part.rows) <= micro for part in parts)


def test_rows_do_not_repeat_within_an_epoch_and_come_in_another_order_in_the_next():
    source = source_of(make_split([20] * 50))
    first = [int(row.rows) for row in epoch_rows(source, 0)]
    second = [int(row.rows) for row in epoch_rows(source, 1)]
    assert sorted(first) == sorted(second) == list(range(source.total_rows))
    assert first != second
    assert first != sorted(first)


def test_the_batch_of_a_step_needs_no_history():
    split = make_split([17, 3, 40, 9] * 20)
    straight = source_of(split)
    for step in range(200):
        last = straight.batch(step)
    assert torch.equal(last.inputs, source_of(split).batch(199).inputs)


def test_another_seed_gives_another_order():
    split = make_split([20] * 50)
    assert not torch.equal(source_of(split, seed=1).batch(0).inputs, source_of(split, seed=2).batch(0).inputs)


@pytest.mark.parametrize(
    "shares", [{"source0": 0.7, "source1": 0.2, "source2": 0.1}, {"source0": 1, "source2": 3}]
)
def test_the_mix_is_met_in_tokens_at_any_moment(shares):
    split = make_split([400] * 30 + [7] * 300 + [50] * 20, sources=[0] * 30 + [1] * 300 + [2] * 20)
    source = source_of(split, seq_len=16, batch_tokens=160, mix=MixSettings(shares=shares))
    total = sum(shares.values())
    seen = Counter()
    for step in range(120):
        seen.update(source.group_numbers(step).tolist())
        rows = (step + 1) * source.rows_per_batch
        for number, group in enumerate(source.groups):
            assert abs(seen[number] - rows * shares[group.name] / total) <= 4
    counted = source.epochs_by_group(120)
    for number, group in enumerate(source.groups):
        assert counted[group.name] == seen[number] / group.n_rows


def test_rows_of_a_mix_hold_one_group_only():
    split = make_split([9] * 30 + [11] * 30, sources=[0] * 30 + [1] * 30)
    source = source_of(split, mix=MixSettings(shares={"source0": 1, "source1": 1}))
    border = int(split.lengths[:30].sum())
    for step in range(20):
        batch = source.batch(step)
        for group, row in zip(source.group_numbers(step), batch.inputs, strict=True):
            tokens = row[row != EOS]
            assert bool(((tokens > border) == bool(group)).all())


def test_a_group_is_read_through_before_it_repeats():
    split = make_split([9] * 40 + [11] * 10, sources=[0] * 40 + [1] * 10)
    source = source_of(split, mix=MixSettings(shares={"source0": 1, "source1": 3}))
    seen = {0: [], 1: []}
    for step in range(60):
        for group, row in zip(source.group_numbers(step), source.batch(step).rows.tolist(), strict=True):
            seen[int(group)].append(row)
    for number, rows in seen.items():
        n = source.groups[number].n_rows
        # Rows of one batch are shuffled, so look only at passes cut at whole batches.
        passes = Counter(rows[: len(rows) // n * n])
        assert max(passes.values()) - min(passes.values()) <= 1


def test_phases_change_the_shares_where_they_say():
    split = make_split([20] * 100, sources=[0] * 50 + [1] * 50)
    mix = MixSettings(
        phases=[
            PhaseSettings(until=0.5, shares={"source0": 1}),
            PhaseSettings(until=1.0, shares={"source0": 1, "source1": 3}),
        ]
    )
    source = source_of(split, mix=mix, total_steps=40)
    before = np.concatenate([source.group_numbers(step) for step in range(20)])
    after = np.concatenate([source.group_numbers(step) for step in range(20, 40)])
    assert before.max() == 0
    assert abs(after.mean() - 0.75) < 0.03


def test_phases_without_a_length_are_refused():
    mix = MixSettings(phases=[PhaseSettings(until=1.0, shares={"source0": 1})])
    with pytest.raises(UserError):
        source_of(make_split([20] * 10), mix=mix)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"mix": MixSettings(shares={"nowhere": 1})}, "nowhere"),
        ({"batch_tokens": 33}, "33"),
    ],
)
def test_what_does_not_fit_is_named(changes, named):
    with pytest.raises(UserError, match=named):
        source_of(make_split([20] * 10), **changes)


def test_uneven_worlds_are_refused():
    with pytest.raises(UserError, match="3"):
        list(source_of(make_split([20] * 10)).micro_batches(0, 1, 0, 3))


def test_best_fit_keeps_short_documents_whole():
    source = source_of(make_split([5, 9, 3, 4, 9, 2, 7]), packing="best-fit", batch_tokens=8)
    whole = Counter()
    for row in epoch_rows(source):
        documents = row.document_ids[0]
        for number in documents[documents >= 0].unique().tolist():
            whole[int((documents == number).sum())] += 1
    assert sum(whole.values()) == 7
