"""Continued pretraining: old weights, new text, and a share of the old text that keeps what was known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from toy import settings

from umsicht.model import build, derive, save_weights
from umsicht.recipe.model import ModelSettings
from umsicht.recipe.tokens import MixSettings
from umsicht.record import Run
from umsicht.score.split import score_split
from umsicht.tokens.data import Split
from umsicht.tokens.mix import realised
from umsicht.tokens.packed import PackedSource
from umsicht.train import Trainer
from umsicht.train.warm import start_from

VOCAB, EOS, SEQ = 64, 63, 16
CONFIG = derive(ModelSettings(d_model=32, n_layers=2, head_dim=16), VOCAB, seq_len=SEQ)


def text(steps: dict[str, int], n_documents: int = 60) -> Split:
    """Documents that count upwards; by how much depends on the source, so that what one source teaches contradicts the other."""
    lengths = np.full(n_documents, 33)
    starts = np.arange(n_documents) * 33
    names = list(steps)
    numbers = (np.arange(n_documents) % len(names)).astype(np.int32)
    stream = np.zeros(n_documents * 33, np.uint16)
    for number, start in enumerate(starts):
        by = steps[names[numbers[number]]]
        stream[start : start + 32] = (number + by * np.arange(32)) % 61
        stream[start + 32] = EOS
    zeros = np.zeros(n_documents, np.int32)
    return Split("train", (stream,), zeros, starts, lengths, zeros, numbers, 2 * (lengths - 1), ["x"], names)


def train(folder: Path, start: Path | None, split: Split, shares: dict[str, float], steps: int) -> Trainer:
    run = Run.create(folder, {"name": folder.name, "recipe": {}, "inputs": {}, "seed": 0})
    mix = MixSettings(by="source", shares=shares)
    source = PackedSource(
        split, seq_len=SEQ, batch_tokens=256, eos_id=EOS, seed=1, mix=mix, total_steps=steps
    )
    if shares.get("old"):
        assert realised(source, steps)["old"].realised == pytest.approx(shares["old"], abs=0.03)
    model = start_from(start, CONFIG) if start else build(CONFIG, 0)
    trainer = Trainer(model, source, settings(steps, global_batch_tokens=256, micro_batch=16), run)
    trainer.fit()
    return trainer


def loss_on(trainer: Trainer, split: Split) -> float:
    return score_split(trainer.model, split, seq_len=SEQ, prefix=EOS).loss


def test_a_replay_share_keeps_what_was_known(tmp_path: Path) -> None:
    """Without old text the new text overwrites it; with a quarter of it both are known."""
    old, both = text({"old": 1}), text({"new": 2, "old": 1})
    first = train(tmp_path / "first", None, old, {}, 60)
    known = loss_on(first, old)
    folder = save_weights(first.model, tmp_path / "weights")
    alone = train(tmp_path / "alone", folder, both, {"new": 1.0}, 60)
    replay = train(tmp_path / "replay", folder, both, {"new": 0.75, "old": 0.25}, 60)
    new = text({"new": 2})
    assert loss_on(alone, old) > known + 1.0
    assert loss_on(replay, old) < loss_on(alone, old) - 0.5
    assert loss_on(replay, new) < loss_on(first, new) - 0.5
