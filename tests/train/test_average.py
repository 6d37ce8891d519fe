"""Averaged weights: the mean of the last part of a run is the result, and a resume changes nothing."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import torch
from toy import ToyModel, ToySource, settings

from umsicht.record import Run
from umsicht.train import CallHook, Hook, Trainer, View, latest, load


def run_of(folder: Path) -> Run:
    return Run.create(folder, {"name": folder.name, "recipe": {}, "inputs": {}, "seed": 0})


def train(run: Run, share: float, hooks: tuple[Hook, ...] = ()) -> Trainer:
    named = settings(8, optimizer={"average_share": share})
    trainer = Trainer(ToyModel(dropout=0.1), ToySource(), named, run, hooks=hooks, seed=3)
    trainer.fit()
    return trainer


def test_the_result_is_the_mean_of_the_last_steps(tmp_path: Path) -> None:
    seen: list[torch.Tensor] = []

    def keep(view: View) -> None:
        seen.append(view.model.up.weight.detach().clone())

    plain = train(run_of(tmp_path / "plain"), 0.0, (CallHook("keep", keep),))
    averaged = train(run_of(tmp_path / "averaged"), 0.5)
    expected = torch.stack(seen[4:]).double().mean(0)
    torch.testing.assert_close(averaged.model.up.weight.double(), expected, rtol=1e-5, atol=1e-7)
    assert not torch.equal(averaged.model.up.weight, plain.model.up.weight)
    path = latest(averaged.run)
    assert path is not None
    assert torch.equal(load(path).model["up.weight"], averaged.model.up.weight)


def test_a_resume_inside_the_averaged_part_is_bitwise(tmp_path: Path) -> None:
    straight = train(run_of(tmp_path / "straight"), 0.5)

    def press(view: View) -> None:
        if view.step == 6:
            os.kill(os.getpid(), signal.SIGTERM)

    run = run_of(tmp_path / "stopped")
    train(run, 0.5, (CallHook("press", press),))
    resumed = train(Run.open(run.folder), 0.5)
    for name, tensor in straight.model.state_dict().items():
        assert torch.equal(tensor, resumed.model.state_dict()[name]), name
