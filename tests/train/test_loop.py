"""The loop: the loss contract, resume to the bit, interruption, hooks, early stopping."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from toy import ToyModel, ToySource, settings

from umsicht.findings import Finding, UserError
from umsicht.record import Run
from umsicht.train import CallHook, Every, Hook, StopRun, Trainer, View
from umsicht.train.ahead import Ahead


def start(folder: Path) -> Run:
    return Run.create(folder, {"name": folder.name, "recipe": {}, "inputs": {}, "seed": 0})


def train(
    run: Run, steps: int = 12, *, model: ToyModel | None = None, hooks: tuple[Hook, ...] = (), **changes: Any
) -> Trainer:
    trainer = Trainer(
        model or ToyModel(dropout=0.2), ToySource(), settings(steps, **changes), run, hooks=hooks
    )
    trainer.outcome = trainer.fit()  # type: ignore[attr-defined]  # kept for the assertions
    return trainer


def weights(trainer: Trainer) -> dict[str, torch.Tensor]:
    return {k: v.clone() for k, v in trainer.model.state_dict().items()}


def stop_at(step: int) -> CallHook:
    """Sends this process the signal a person sends with Ctrl-C."""

    def press(view: View) -> None:
        if view.step == step:
            os.kill(os.getpid(), signal.SIGINT)

    return CallHook(f"press-{step}", press)


def test_loss_falls_and_the_record_is_whole(tmp_path: Path) -> None:
    run = start(tmp_path / "run")
    train(run, 60)
    rows = run.metrics().rows
    assert [r["step"] for r in rows] == list(range(1, 61))
    assert rows[-1]["tokens"] == 60 * 128
    assert rows[-1]["train/loss"] < 0.6 * rows[0]["train/loss"]
    for name in (
        "train/grad_norm",
        "train/clipped",
        "train/lr",
        "train/tokens_per_s",
        "train/data_wait_s",
        "train/epoch",
    ):
        assert name in rows[0]
    assert run.manifest["outcome"] == {"reason": "finished", "step": 60}


@pytest.mark.parametrize("micro", [1, 2, 8])
def test_micro_batches_change_nothing(tmp_path: Path, micro: int) -> None:
    """One batch of 8 and 8 micro-batches of one give the same loss and gradient norm, with uneven masks."""
    model = ToyModel().double()
    trainer = Trainer(model, ToySource(), settings(1, micro_batch=micro), start(tmp_path / "run"))
    loss, count, _, _ = trainer._gradient(0)
    whole = ToySource().batch(0)
    expected = torch.nn.functional.cross_entropy(model(whole.inputs).flatten(0, 1), whole.targets.flatten())
    gradient = model.mix.weight.grad.clone()
    model.zero_grad()
    expected.backward()
    assert count == whole.active_targets
    assert loss == pytest.approx(expected.item(), abs=1e-6)
    assert torch.allclose(gradient, model.mix.weight.grad, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("kind", ["muon", "adamw"])
def test_resume_is_bitwise_twice_across_an_epoch(tmp_path: Path, kind: str) -> None:
    """Straight through = stop and resume twice: weights, optimizer, rates, losses; with dropout and accumulation."""
    source = ToySource()
    assert source.epoch(3) > 1.0  # the first stop lies in the second epoch
    straight = train(start(tmp_path / "straight"), 12, optimizer={"kind": kind})
    stopped = start(tmp_path / "stopped")
    first = train(stopped, 12, hooks=(stop_at(4),), optimizer={"kind": kind})
    assert first.outcome.reason == "interrupted" and first.outcome.step == 4  # type: ignore[attr-defined]
    second = train(
        Run.open(stopped.folder),
        12,
        hooks=(stop_at(7),),
        model=ToyModel(dropout=0.2, seed=5),
        optimizer={"kind": kind},
    )
    assert second.outcome.step == 7  # type: ignore[attr-defined]
    last = train(Run.open(stopped.folder), 12, model=ToyModel(dropout=0.2, seed=6), optimizer={"kind": kind})
    assert last.outcome.reason == "finished"  # type: ignore[attr-defined]
    for name, tensor in weights(straight).items():
        assert torch.equal(tensor, weights(last)[name]), name
    theirs = last.carried.optimizer.state_tensors()
    for name, tensor in straight.carried.optimizer.state_tensors().items():
        assert torch.equal(tensor, theirs[name]), name
    names = ("step", "tokens", "train/loss", "train/grad_norm", "train/lr", "train/epoch")
    rows = [[{n: r[n] for n in names} for r in t.run.metrics().rows] for t in (straight, last)]
    assert rows[0] == rows[1]


def test_hooks_and_samples_do_not_disturb_training(tmp_path: Path) -> None:
    """A hook that draws random numbers leaves every weight as it was."""
    plain = train(start(tmp_path / "plain"), 6)
    noisy = train(start(tmp_path / "noisy"), 6, hooks=(CallHook("dice", lambda view: torch.rand(100)),))
    for name, tensor in weights(plain).items():
        assert torch.equal(tensor, weights(noisy)[name]), name


class Counter(Hook):
    name = "counter"
    every = Every(steps=2)

    def __init__(self) -> None:
        self.seen: list[int] = []

    def after_step(self, view: View) -> None:
        self.seen.append(view.step)

    def state_dict(self) -> dict[str, Any]:
        return {"seen": self.seen}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.seen = list(state["seen"])


def test_hook_state_survives_a_resume(tmp_path: Path) -> None:
    run = start(tmp_path / "run")
    train(run, 9, hooks=(Counter(), stop_at(5)))
    counter = Counter()
    train(Run.open(run.folder), 9, hooks=(counter,))
    assert counter.seen == [2, 4, 6, 8]


def test_skip_leaves_the_weights(tmp_path: Path) -> None:
    before: dict[str, torch.Tensor] = {}

    class Skipper(Hook):
        name = "skipper"

        def after_backward(self, view: View) -> Any:
            before.update({k: v.clone() for k, v in view.model.state_dict().items()})
            return "skip" if view.step == 3 else None

    trainer = train(start(tmp_path / "run"), 3, hooks=(Skipper(),))
    for name, tensor in weights(trainer).items():
        assert torch.equal(tensor, before[name])
    assert trainer.run.metrics().rows[-1]["train/skipped"] == 1


def test_stop_run_keeps_last_good_weights(tmp_path: Path) -> None:
    class Guard(Hook):
        name = "guard"

        def after_backward(self, view: View) -> None:
            if view.step == 4:
                raise StopRun(Finding("NUMERIC/not-finite", "stop", "train", "step 4", {"step": 4}))

    run = start(tmp_path / "run")
    trainer = train(run, 9, hooks=(Guard(),))
    assert trainer.outcome.reason == "stopped-by-guard" and trainer.outcome.step == 3  # type: ignore[attr-defined]
    assert run.findings()[0]["id"] == "NUMERIC/not-finite"
    straight = train(start(tmp_path / "straight"), 9)
    resumed = train(Run.open(run.folder), 9)
    for name, tensor in weights(straight).items():
        assert torch.equal(tensor, weights(resumed)[name])


def test_nan_never_reaches_the_weights(tmp_path: Path) -> None:
    def poison(view: View) -> None:
        if view.step == 2:
            view.model.mix.weight.register_hook(lambda g: g * float("nan"))

    run = start(tmp_path / "run")
    trainer = train(run, 5, hooks=(CallHook("poison", poison, moment="before_step"),))
    assert trainer.outcome.reason == "stopped-by-guard"  # type: ignore[attr-defined]
    assert all(bool(p.isfinite().all()) for p in trainer.model.parameters())
    assert run.metrics().rows[-1]["train/grad_norm"] == "NaN"


def test_a_batch_without_targets_stops(tmp_path: Path) -> None:
    source = ToySource()
    source._lengths.zero_()
    trainer = Trainer(ToyModel(), source, settings(3), start(tmp_path / "run"))
    outcome = trainer.fit()
    assert outcome.finding is not None and outcome.finding.id == "TARGET-MASK/no-active-targets"


def test_early_stopping_counts_across_a_resume(tmp_path: Path) -> None:
    def falls_then_rises(view: View) -> None:
        view.log({"val/x.en/bpb": abs(view.step - 4) + 1.0})

    early = {"metric": "val/x.en/bpb", "patience": 3}
    run = start(tmp_path / "run")
    watch = CallHook("val", falls_then_rises)
    train(run, 30, hooks=(watch, stop_at(5)), early_stopping=early)
    trainer = train(Run.open(run.folder), 30, hooks=(watch,), early_stopping=early)
    assert trainer.outcome.reason == "early-stopped" and trainer.outcome.step == 7  # type: ignore[attr-defined]


def test_a_changed_recipe_is_refused_with_the_difference(tmp_path: Path) -> None:
    run = start(tmp_path / "run")
    train(run, 4)
    with pytest.raises(UserError) as error:
        Trainer(ToyModel(), ToySource(), settings(4, optimizer={"matrix_rate": 0.5}), Run.open(run.folder))
    assert "optimizer.matrix_rate" in str(error.value)
    Trainer(ToyModel(), ToySource(), settings(4, checkpoint={"keep_last": 7}), Run.open(run.folder))


def test_changed_data_are_refused(tmp_path: Path) -> None:
    run = start(tmp_path / "run")
    train(run, 6, hooks=(stop_at(3),))
    trainer = Trainer(ToyModel(), ToySource(n_rows=21), settings(6), Run.open(run.folder))
    with pytest.raises(UserError, match="n_rows"):
        trainer.fit()


def test_a_finished_run_is_not_trained_again(tmp_path: Path) -> None:
    run = start(tmp_path / "run")
    train(run, 3)
    size = run.metrics_path.stat().st_size
    assert train(Run.open(run.folder), 3).outcome.reason == "finished"  # type: ignore[attr-defined]
    assert run.metrics_path.stat().st_size == size


def test_minutes_become_steps_and_leave_the_weights_alone(tmp_path: Path) -> None:
    model = ToyModel()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    run = start(tmp_path / "run")
    trainer = Trainer(model, ToySource(), settings(1, budget={"minutes": 5}), run)
    assert trainer.total_steps == run.manifest["planned_steps"] >= 2
    for name, tensor in weights(trainer).items():
        assert torch.equal(tensor, before[name])
    again = Trainer(ToyModel(), ToySource(), settings(1, budget={"minutes": 5}), Run.open(run.folder))
    assert again.total_steps == trainer.total_steps


def test_epochs_become_steps(tmp_path: Path) -> None:
    trainer = Trainer(ToyModel(), ToySource(), settings(1, budget={"epochs": 2}), start(tmp_path / "run"))
    assert trainer.total_steps == 5  # 40 rows of 8 a step


def test_short_sequences_train_on_the_same_targets(tmp_path: Path) -> None:
    changes = {"phases": {"short_sequences": 4, "short_share": 0.5}}
    trainer = Trainer(ToyModel(), ToySource(), settings(4, **changes), start(tmp_path / "run"))
    short, full = trainer._micro_batches(1), trainer._micro_batches(2)
    assert short[0].inputs.shape == (8, 4) and full[0].inputs.shape == (2, 16)
    assert sum(b.active_targets for b in short) == ToySource().batch(1).active_targets


def test_the_next_batch_is_made_beside_the_step_and_only_once() -> None:
    """Asked for in order every step is made once, most of them in the other thread; out of order on the spot."""
    made: list[tuple[int, bool]] = []

    def make(step: int) -> int:
        made.append((step, threading.current_thread() is threading.main_thread()))
        if step == 7:
            raise ValueError("no such batch")
        return 10 * step

    ahead = Ahead(make, lambda: 9)
    assert [ahead(step) for step in range(5)] == [0, 10, 20, 30, 40]
    assert ahead(2) == 20 and ahead(6) == 60
    with pytest.raises(ValueError, match="no such batch"):
        ahead(7)
    ahead.close()
    assert [step for step, in_main in made if in_main] == [0, 2, 6]
    assert not [t for t in threading.enumerate() if t.name.startswith("umsicht-data")]
