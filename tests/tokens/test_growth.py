"""A batch that grows is arithmetic of the step: the same rows in the same order, only cut at other places."""

import numpy as np
import pytest
import torch
from counting import EOS, make_split
from hypothesis import given
from hypothesis import strategies as st

from umsicht.findings import UserError
from umsicht.recipe.tokens import MixSettings, PhaseSettings
from umsicht.tokens.growth import Growth
from umsicht.tokens.packed import PackedSource

GROWTHS = st.builds(Growth, st.sampled_from([2, 4, 8]), st.floats(0.05, 1.0), st.integers(1, 400))


def source_of(growth, **changes):
    lengths = [17, 30, 8, 25, 40, 12, 33, 21]
    split = make_split(lengths, sources=[0, 1, 0, 1, 0, 1, 0, 1])
    chosen = {"seq_len": 8, "batch_tokens": 64, "eos_id": EOS, "seed": 3, **changes}
    return PackedSource(split, **chosen, growth=growth)


@given(growth=GROWTHS)
def test_steps_never_shrink_and_end_whole(growth):
    sizes = np.diff([growth.parts_before(step) for step in range(growth.total_steps + 3)])
    assert sizes[0] == 1 or growth.starts[1] == 0
    assert (np.diff(sizes) >= 0).all()
    assert sizes[-1] == growth.first
    assert set(sizes.tolist()) <= {2**n for n in range(growth.first.bit_length())}


@given(growth=GROWTHS, batches=st.floats(0.5, 300.0))
def test_the_length_is_the_one_that_reads_what_was_asked_for(growth, batches):
    steps = growth.steps_for(batches)
    read = Growth(growth.first, growth.share, steps).parts_before(steps) / growth.first
    assert steps >= batches - 0.5
    # Half a step off at most, where a run of one step more or less reads that much more or less.
    near = [
        Growth(growth.first, growth.share, other).parts_before(other) / growth.first
        for other in (steps - 1, steps + 1)
        if other > 0
    ]
    assert all(abs(read - batches) <= abs(one - batches) for one in near)


def test_a_quarter_then_a_half_then_all():
    growth = Growth(4, 0.5, 16)
    assert growth.starts == (0, 4, 8)
    assert [growth.parts_before(step) for step in (0, 4, 8, 9, 16)] == [0, 4, 12, 16, 44]
    with pytest.raises(ValueError, match="doubling"):
        Growth(3, 0.5, 16)


@pytest.mark.parametrize("mix", [None, MixSettings(shares={"source0": 0.7, "source1": 0.3})])
def test_the_same_rows_are_read_as_without_growth(mix):
    growth = Growth(4, 0.5, 12)
    growing, plain = source_of(growth, mix=mix), source_of(None, mix=mix)
    steps = 12
    mine = [row for step in range(steps) for row in growing.batch(step).rows.tolist()]
    theirs = [row for step in range(steps) for row in plain.batch(step).rows.tolist()]
    assert growing.rows_before(steps) == len(mine) < len(theirs)
    if mix is None:
        assert mine == theirs[: len(mine)]
    else:
        # Inside a batch rows of several groups are shuffled; across whole batches the same rows are read.
        whole = len(mine) // growing.rows_per_batch * growing.rows_per_batch
        assert len(set(mine[:whole]) ^ set(theirs[:whole])) <= growing.rows_per_batch
    assert [len(growing.batch(step).rows) for step in (0, 3, 6, 11)] == [2, 4, 8, 8]


def test_epochs_and_tokens_count_what_was_read():
    source = source_of(Growth(4, 0.5, 12))
    assert source.epoch(12) == source.rows_before(12) / source.total_rows
    assert sum(source.tokens_at(step) for step in range(12)) == 8 * source.rows_before(12)
    assert source.state()["growth"] == {"first": 4, "share": 0.5, "total_steps": 12}
    assert "growth" not in source_of(None).state()


@pytest.mark.parametrize("world", [1, 2])
def test_ranks_and_micro_batches_tile_a_small_batch(world):
    source = source_of(Growth(4, 0.5, 12))
    for step in (0, 4, 11):
        parts = [
            batch.inputs for rank in range(world) for batch in source.micro_batches(step, 1, rank, world)
        ]
        assert torch.equal(torch.cat(parts), source.batch(step).inputs)


def test_phases_of_the_mix_are_shares_of_what_is_read():
    phases = [
        PhaseSettings(until=0.5, shares={"source0": 1.0}),
        PhaseSettings(until=1.0, shares={"source1": 1.0}),
    ]
    growth = Growth(4, 0.5, 16)
    source = source_of(growth, mix=MixSettings(phases=phases), total_steps=16)
    groups = np.concatenate([source.group_numbers(step) for step in range(16)])
    assert abs(float((groups == 0).mean()) - 0.5) < 0.05


def test_rows_that_cannot_be_cut_are_named():
    with pytest.raises(UserError, match="1/16"):
        source_of(Growth(16, 0.5, 12))
