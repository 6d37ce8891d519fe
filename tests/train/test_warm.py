"""Continued pretraining starts from the old weights, or says what does not fit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from umsicht.findings import UserError
from umsicht.model import ModelConfig, build, derive, save_weights
from umsicht.recipe.model import ModelSettings
from umsicht.record import Run
from umsicht.train.warm import start_from


def config(n_tokens: int = 60, **changes: object) -> ModelConfig:
    named = ModelSettings.model_validate({"d_model": 32, "n_layers": 2, "head_dim": 16, **changes})
    return derive(named, n_tokens, seq_len=16)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    run = Run.create(
        tmp_path / "old", {"name": "old", "recipe": {}, "inputs": {}, "seed": 0, "tokenizer_digest": "one"}
    )
    return save_weights(build(config(), 5), run.checkpoints / "step-00000001")


def test_weights_come_along_and_dropout_may_change(checkpoint: Path) -> None:
    model = start_from(checkpoint, config(dropout={"residual": 0.3}), "one")
    assert model.config.dropout_residual == 0.3
    for name, tensor in build(config(), 5).state_dict().items():
        assert torch.equal(tensor, model.state_dict()[name])


def test_another_shape_or_vocabulary_is_named(checkpoint: Path) -> None:
    with pytest.raises(UserError, match="n_layers"):
        start_from(checkpoint, config(n_layers=3))
    with pytest.raises(UserError, match="n_tokens"):
        start_from(checkpoint, config(n_tokens=61))


def test_another_tokenizer_is_refused(checkpoint: Path) -> None:
    with pytest.raises(UserError):
        start_from(checkpoint, config(), "two")


def test_a_folder_without_weights_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        start_from(tmp_path, config())
