"""Dropout is off inside the block only, however many blocks are open and in whichever order they end."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch
from bench.faults import base
from torch import nn
from torch.nn import functional

from umsicht.guard import preflight
from umsicht.guard.probes.silent import silent


def drops() -> bool:
    """Whether anything is dropped here and now."""
    return bool((functional.dropout(torch.ones(1000), 0.5, True) == 0).any())


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_blocks_may_end_in_any_order(order: tuple[int, ...]) -> None:
    models = [nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.3)) for _ in range(3)]
    blocks = [silent(model) for model in models]
    for block in blocks:
        block.__enter__()
    for index in order:
        assert not drops()
        blocks[index].__exit__(None, None, None)
    assert drops()
    assert all(model[1].p == 0.3 for model in models)


def test_an_error_inside_gives_everything_back() -> None:
    model = nn.Dropout(0.3)
    with pytest.raises(ValueError, match="inside"), silent(model):
        assert model.p == 0.0
        raise ValueError("inside")
    assert drops()
    assert model.p == 0.3


def test_a_whole_check_gives_everything_back(tmp_path: Path) -> None:
    pipeline = base.begin(base.with_dropout(base.recipe()), tmp_path)
    pipeline.make_tokens()
    pipeline.make_run()
    preflight(pipeline.inputs())
    assert drops()
