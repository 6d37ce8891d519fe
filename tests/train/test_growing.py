"""Batches that grow: counted right, normalised right, bitwise over a resume inside the growth, and no reason for an alarm."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from toy import VOCAB, ToyModel, settings

from umsicht.findings import UserError
from umsicht.guard.monitors import CurveMonitor, monitors
from umsicht.recipe.guard import GuardSettings, MonitorSettings
from umsicht.recipe.train import BudgetSettings
from umsicht.record import Run
from umsicht.tokens.batch import IGNORE
from umsicht.tokens.data import Split
from umsicht.tokens.growth import Growth
from umsicht.tokens.packed import PackedSource
from umsicht.train import Trainer
from umsicht.train.budget import growth_of, planned_tokens, total_steps
from umsicht.train.hooks import CallHook, Hook, View
from umsicht.train.shares import micro_batches

PHASES = {"small_batches": 4, "small_share": 0.5}


def text(n: int = 700) -> Split:
    """Documents of 7 to 23 tokens, most of them predictable from the token before."""
    generator = np.random.default_rng(0)
    tokens = np.zeros(n, dtype=np.uint16)
    for i in range(1, n):
        tokens[i] = (5 * tokens[i - 1] + 3) % VOCAB if generator.random() < 0.8 else generator.integers(VOCAB)
    lengths = generator.integers(7, 24, n)
    lengths = lengths[: int(np.searchsorted(np.cumsum(lengths), n))]
    ends = np.cumsum(lengths)
    zeros = np.zeros(len(lengths), np.int32)
    return Split(
        "train", (tokens,), zeros, ends - lengths, lengths, zeros, zeros, 3 * lengths, ["a.en"], ["a"]
    )


def source(steps: int | None) -> PackedSource:
    growth = Growth(4, 0.5, steps) if steps else None
    return PackedSource(text(), seq_len=16, batch_tokens=128, eos_id=0, packing="best-fit", growth=growth)


def train(folder: Path, steps: int = 16, hooks: tuple[Hook, ...] = (), **changes: Any) -> Trainer:
    run = Run.open(folder) if folder.exists() else Run.create(folder, {"name": "r", "recipe": {}, "seed": 0})
    chosen = settings(steps, phases=PHASES, document_mask=True, **changes)
    trainer = Trainer(ToyModel(dropout=0.2), source(steps), chosen, run, hooks=hooks)
    trainer.fit()
    return trainer


def stop_at(step: int) -> Hook:
    import os
    import signal

    return CallHook("stop", lambda view: os.kill(os.getpid(), signal.SIGINT) if view.step == step else None)


def test_tokens_and_planned_tokens_are_those_of_the_steps(tmp_path: Path) -> None:
    trainer = train(tmp_path / "run")
    rows = trainer.run.metrics().rows
    sizes = np.diff([0, *(row["tokens"] for row in rows)]).tolist()
    assert sizes == [32] * 4 + [64] * 4 + [128] * 8
    assert trainer.run.manifest["planned_tokens"] == sum(sizes) == planned_tokens(source(16), 16)
    assert rows[-1]["train/epoch"] == source(16).epoch(16)


def test_a_stop_inside_the_growth_changes_no_bit(tmp_path: Path) -> None:
    straight = train(tmp_path / "straight")
    for step in (2, 6):
        train(tmp_path / "stopped", hooks=(stop_at(step),))
    resumed = train(tmp_path / "stopped")
    for name, tensor in straight.model.state_dict().items():
        assert torch.equal(tensor, resumed.model.state_dict()[name]), name
    names = ("step", "tokens", "train/loss", "train/grad_norm", "train/lr", "train/active_targets")
    kept = [[{n: row[n] for n in names} for row in t.run.metrics().rows] for t in (straight, resumed)]
    assert kept[0] == kept[1]


@pytest.mark.parametrize("step", [0, 5, 12])
def test_the_loss_is_a_mean_over_the_active_targets_of_the_step(tmp_path: Path, step: int) -> None:
    run = Run.create(tmp_path / "run", {"name": "r", "recipe": {}, "seed": 0})
    model = ToyModel()
    trainer = Trainer(model, source(16), settings(16, phases=PHASES, micro_batch=1), run)
    loss, count, batches, _ = trainer._gradient(step)
    whole = source(16).batch(step)
    assert count == whole.active_targets < whole.targets.numel()
    assert len(batches) == whole.inputs.shape[0]
    expected = torch.nn.functional.cross_entropy(
        model(whole.inputs).flatten(0, 1), whole.targets.flatten(), ignore_index=IGNORE
    )
    assert loss == pytest.approx(expected.item(), rel=1e-5)


def test_ranks_share_a_batch_that_is_smaller_than_their_number() -> None:
    growing = source(16)
    parts = [micro_batches(growing, 0, 2, total=2, rank=rank, world=4) for rank in range(4)]
    assert {len(part) for part in parts} == {1}
    read = [row for part in parts for batch in part for row in batch.rows.tolist()]
    assert sorted(read) == sorted(growing.batch(0).rows.tolist())
    active = sum(batch.active_targets for part in parts for batch in part)
    assert active == growing.batch(0).active_targets


@pytest.mark.parametrize("budget", [{"tokens": 5_000}, {"epochs": 3}])
def test_a_budget_in_tokens_or_epochs_is_met_by_what_is_read(budget: dict[str, Any]) -> None:
    growing = source(1 << 20)
    steps = total_steps(BudgetSettings(**budget), growing, lambda: 1.0)
    wanted = budget.get("tokens") or budget["epochs"] * growing.total_rows * growing.seq_len
    assert abs(planned_tokens(source(steps), steps) - wanted) <= growing.tokens_per_batch
    assert steps > wanted / growing.tokens_per_batch


def test_a_length_that_only_the_clock_knows_is_refused() -> None:
    with pytest.raises(UserError) as error:
        growth_of(settings(phases=PHASES).phases, None)
    assert "length" in error.value.what


def test_growth_is_no_alarm(tmp_path: Path) -> None:
    """Noise falls and the course changes where the batch doubles: the monitor knows it for what it is."""
    watching = monitors(
        GuardSettings(), source=source(400), settings=settings(400, phases=PHASES), schedule_steps=400
    )
    curve = next(hook for hook in watching if isinstance(hook, CurveMonitor))
    assert list(curve.growing) == [start + 1 for start in Growth(4, 0.5, 400).starts]
    trainer = train(tmp_path / "run", 400, hooks=(curve,), log_every=50)
    assert trainer.run.findings() == []
    assert trainer.run.manifest["outcome"] == {"reason": "finished", "step": 400}


def test_batches_of_uneven_size_do_not_blind_the_monitor() -> None:
    """Rows of fine-tuning are as long as they are: only growth that is declared begins a new trend."""
    curve = CurveMonitor(MonitorSettings())
    for step in range(1, 200):
        batch = SimpleNamespace(targets=torch.zeros(4, 10 + step % 7))
        curve.after_backward(
            cast("View", SimpleNamespace(step=step, loss=2.0, lr=0.1, grad_norm=1.0, batch=batch))
        )
    assert len(curve.rule.trend) == curve.rule.trend.maxlen
