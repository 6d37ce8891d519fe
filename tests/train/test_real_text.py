"""The loop on our own model and packed tokens: validation figures, and resume to the bit with everything switched on."""

from __future__ import annotations

import math
import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from toy import settings

from umsicht.model import Transformer, build, derive
from umsicht.recipe.model import ModelSettings
from umsicht.record import Run
from umsicht.tokens.data import Split, TokenData
from umsicht.tokens.packed import PackedSource
from umsicht.train import CallHook, Hook, Trainer, Validation, View

VOCAB, EOS = 64, 63


def split(name: str, n_documents: int, seed: int) -> Split:
    """Documents of two slices; tokens follow a pattern with noise, one token stands for two bytes."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(5, 40, n_documents)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    stream = (np.arange(int(lengths.sum())) * 7 % 61).astype(np.uint16)
    noise = generator.random(len(stream)) < 0.1
    stream[noise] = generator.integers(0, 61, int(noise.sum()))
    stream[starts + lengths - 1] = EOS
    return Split(
        name,
        (stream,),
        np.zeros(n_documents, np.int32),
        starts.astype(np.int64),
        lengths.astype(np.int64),
        (np.arange(n_documents) % 2).astype(np.int32),
        np.zeros(n_documents, np.int32),
        (2 * (lengths - 1)).astype(np.int64),
        ["prose.en", "prose.de"],
        ["made"],
    )


@pytest.fixture
def data() -> TokenData:
    return TokenData(
        split("train", 40, 1), split("val", 12, 2), VOCAB, EOS, {"slices": ["prose.en", "prose.de"]}
    )


def model(seed: int = 0) -> Transformer:
    dropout = {"embedding": 0.1, "attention": 0.1, "residual": 0.1}
    named = ModelSettings.model_validate({"d_model": 32, "n_layers": 2, "head_dim": 16, "dropout": dropout})
    return build(derive(named, VOCAB, seq_len=16), seed)


def source(data: TokenData) -> PackedSource:
    return PackedSource(data.train, seq_len=16, batch_tokens=128, eos_id=EOS, seed=3)


def start(folder: Path) -> Run:
    return Run.create(folder, {"name": folder.name, "recipe": {}, "inputs": {}, "seed": 0})


def train(data: TokenData, run: Run, hooks: tuple[Hook, ...] = (), seed: int = 0) -> Trainer:
    chosen = settings(
        20,
        validation={"count": 4, "slice_bytes": 400, "train_bytes": 400},
        phases={"short_sequences": 8, "short_share": 0.3},
        regularisation={"label_smoothing": 0.05, "z_loss": 1e-4},
    )
    validation = Validation(data, chosen.validation, seq_len=16)
    trainer = Trainer(model(seed), source(data), chosen, run, hooks=(validation, *hooks), seed=7)
    trainer.fit()
    return trainer


def press(step: int, number: signal.Signals) -> CallHook:
    def send(view: View) -> None:
        if view.step == step:
            os.kill(os.getpid(), number)

    return CallHook("press", send)


def test_resume_twice_is_bitwise_with_everything_on(tmp_path: Path, data: TokenData) -> None:
    """Muon, accumulation, three dropouts, label smoothing, z-loss, short sequences, validation; stops in and across epochs."""
    epochs = source(data).epoch
    assert epochs(6) < 1 < epochs(13)
    straight = train(data, start(tmp_path / "straight"))
    run = start(tmp_path / "stopped")
    train(data, run, (press(6, signal.SIGTERM),))
    assert run.manifest["outcome"] == {"reason": "interrupted", "step": 6}
    train(data, Run.open(run.folder), (press(13, signal.SIGINT),), seed=1)
    last = train(data, Run.open(run.folder), seed=2)
    theirs = last.model.state_dict()
    for name, tensor in straight.model.state_dict().items():
        assert torch.equal(tensor, theirs[name]), name
    state = last.carried.optimizer.state_tensors()
    for name, tensor in straight.carried.optimizer.state_tensors().items():
        assert torch.equal(tensor, state[name]), name
    dropped = ("time", "segment", "train/tokens_per_s", "train/data_wait_s")
    rows = [
        [{k: v for k, v in row.items() if k not in dropped} for row in Run.open(folder).metrics().rows]
        for folder in (straight.run.folder, run.folder)
    ]
    assert rows[0] == rows[1]


def test_validation_is_summed_and_repeats_exactly(tmp_path: Path, data: TokenData) -> None:
    run = start(tmp_path / "run")
    trainer = train(data, run)
    rows = {row["step"]: row for row in run.metrics().rows}
    assert [step for step in rows if "val/all/bpb" in rows[step]] == [0, 5, 10, 15, 20]
    first = rows[0]
    assert first["val/all/loss"] == pytest.approx(math.log(trainer.model.config.vocab_size), abs=0.1)
    low, high = sorted((first["val/prose.en/bpb"], first["val/prose.de/bpb"]))
    assert low <= first["val/all/bpb"] <= high
    assert rows[20]["val/all/bpb"] < first["val/all/bpb"] and "train_eval/loss" in rows[20]
    view = View(run, trainer.model, trainer.carried.optimizer, trainer.device, 20)
    hook = Validation(data, trainer.settings.validation, seq_len=16)
    hook.at_start(view)
    assert view.row["val/all/bpb"] == rows[20]["val/all/bpb"]
    assert trainer.model.training
