"""Memory of a step: counted without storage as a real step uses it, and a batch that does not fit named before the first step."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from toy import settings

from umsicht.findings import UserError
from umsicht.model import Transformer, build, derive
from umsicht.recipe.model import ModelSettings
from umsicht.record import Run
from umsicht.tokens.batch import Batch
from umsicht.train import Trainer, fitting
from umsicht.train.alone import ALONE
from umsicht.train.memory import Living, largest_micro_batch, step_bytes
from umsicht.train.objective import LanguageModelling
from umsicht.train.optimizer import Optimizer
from umsicht.train.reduction import clip
from umsicht.train.resident import PeakMemory, available_bytes

CONFIG = derive(ModelSettings(d_model=64, n_layers=2), 500, seq_len=32)


class RandomRows:
    """Eight rows of random tokens, whatever the step."""

    tokens_per_batch = 8 * 32

    def batch(self, step: int) -> Batch:
        ids = torch.randint(0, 500, (8, 33), generator=torch.Generator().manual_seed(step))
        return Batch(ids[:, :-1], ids[:, 1:], torch.zeros(8, 32, dtype=torch.int32), torch.arange(8))

    def micro_batches(self, step: int, rows: int, rank: int = 0, world: int = 1) -> list[Batch]:
        return [self.batch(step).slice(first, first + rows) for first in range(0, 8, rows)]

    def epoch(self, step: int) -> float:
        return 0.0

    def state(self) -> dict[str, int]:
        return {}


def test_a_step_without_storage_uses_what_a_real_step_uses() -> None:
    named = settings(1)
    counted = step_bytes(CONFIG, named, 4)
    batch = RandomRows().batch(0).slice(0, 4)
    living = Living()
    with living:
        model = Transformer(CONFIG)
        optimizer = Optimizer(model, named.optimizer)
        state = living.mark()
        (LanguageModelling()(model, batch).objective / 2).backward()
        computing = living.peak
        living.mark()
        clip(optimizer.parameters, 2 * float(ALONE.gradient_norm(optimizer.parameters)), 1.0)
        optimizer.step(1.0)
    assert counted.state == state
    assert counted.computing == pytest.approx(computing, rel=0.01)
    assert counted.moving == pytest.approx(living.peak, rel=0.01)


def test_accumulating_keeps_the_first_gradients_beside_the_second_micro_batch() -> None:
    once, twice = (step_bytes(CONFIG, settings(1), 4, accumulates=more) for more in (False, True))
    assert twice.computing > once.computing
    assert twice.computing <= once.computing + once.gradients


@pytest.mark.parametrize(("limit", "expected"), [(100, 12), (5, 4), (1, 1), (0, None)])
def test_the_largest_divisor_that_fits(limit: int, expected: int | None) -> None:
    assert largest_micro_batch(12, lambda n: n <= limit) == expected


def trainer(folder: Path, micro_batch: int | None) -> Trainer:
    run = Run.create(folder, {"name": "run", "recipe": {}, "inputs": {}, "seed": 0})
    named = settings(2, micro_batch=micro_batch, global_batch_tokens=256)
    return Trainer(build(CONFIG, 0), RandomRows(), named, run)


def test_a_batch_that_does_not_fit_is_refused_with_the_largest_that_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory is said to be what four rows need; the recipe asks for eight."""
    enough_for_four = fitting.MARGIN * step_bytes(CONFIG, settings(1), 4, accumulates=True).peak
    monkeypatch.setattr(fitting, "available_bytes", lambda device: int(enough_for_four) + 1)
    with pytest.raises(UserError) as error:
        trainer(tmp_path / "named", 8)
    assert "train.micro_batch=4" in error.value.fix
    assert trainer(tmp_path / "left-open", None).machine.micro_batch == 4
    monkeypatch.setattr(fitting, "available_bytes", lambda device: 1000)
    with pytest.raises(UserError, match="row"):
        trainer(tmp_path / "nothing-fits", None)


def test_the_peak_of_a_training_is_recorded(tmp_path: Path) -> None:
    if not PeakMemory().start().counts_afresh:
        pytest.skip("this system does not let a process reset its peak")
    made = trainer(tmp_path / "run", 8)
    made.fit()
    manifest = made.run.manifest
    least = step_bytes(CONFIG, made.settings, 8).state
    assert least < manifest["peak_bytes"] <= manifest["process_peak_bytes"]
    assert manifest["resolved"]["rates"]["embedding"] == 0.3


def test_growth_is_seen_and_freed_memory_does_not_count() -> None:
    memory = PeakMemory()
    if not memory.start().counts_afresh:
        pytest.skip("this system does not let a process reset its peak")
    block = torch.ones(20_000_000)
    assert memory.grown_bytes() >= 75_000_000
    del block
    assert memory.start().grown_bytes() < 40_000_000
    assert (available_bytes("cpu") or 1) > 0
