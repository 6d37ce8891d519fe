"""The monitor in somebody else's loop: quiet on a healthy one, and stopping before the weights move."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.guard.models import Nano, grouped, pairs

from umsicht.findings import UserError
from umsicht.guard import GuardStop, watch
from umsicht.guard.monitors import SpikeRule


def compute(model: Nano, batch: Any) -> torch.Tensor:
    loss: torch.Tensor = model(*batch)[1]
    return loss


def loop(
    folder: Path, steps: int, *, clears: bool = True, poison: int | None = None, repeat: bool = False
) -> Any:
    model = Nano()
    optimizer = grouped(model)
    batches = pairs(batches=1 if repeat else steps)
    with watch(folder, model, optimizer, loss=compute) as w:
        for step in range(steps):
            batch = batches[0 if repeat else step]
            if step == poison:
                with torch.no_grad():
                    model.h[1].fc.weight[0, 0] = math.inf  # type: ignore[union-attr, index]
            if clears:
                optimizer.zero_grad()
            loss = compute(model, batch)
            loss.backward()
            w.feed(batch)
            optimizer.step()
            w.step(loss, batch)
    return w, model


def test_healthy_loop_is_quiet(tmp_path: Path) -> None:
    w, _ = loop(tmp_path, 30)
    assert [f.id for f in w.findings] == []
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 30


def test_missing_zero_grad(tmp_path: Path) -> None:
    w, _ = loop(tmp_path, 8, clears=False)
    assert [f.id for f in w.findings] == ["OPT-WIRING/gradient-left-over"]


def test_repeated_batches(tmp_path: Path) -> None:
    w, _ = loop(tmp_path, 6, repeat=True)
    assert "DATA-ORDER/repeats" in [f.id for f in w.findings]


def test_stops_before_the_weights_move(tmp_path: Path) -> None:
    with pytest.raises(GuardStop) as caught:
        loop(tmp_path, 8, poison=5)
    finding = caught.value.finding
    assert finding.id == "NUMERIC/rate-too-large" and "h.1.fc.weight" in finding.location
    assert (tmp_path / "alarms" / "step-00000005.json").is_file()


def test_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"), watch(tmp_path / "file", Nano()):
        pass


def rule_on(losses: list[float]) -> list[str]:
    rule = SpikeRule()
    return [alarm.kind for step, loss in enumerate(losses) if (alarm := rule.see(step, loss)) is not None]


def noise(steps: int, seed: int = 0) -> list[float]:
    generator = torch.Generator().manual_seed(seed)
    return [
        3.0 + 3.0 * math.exp(-step / 150) + 0.08 * float(torch.randn((), generator=generator))
        for step in range(steps)
    ]


def test_rule_is_quiet_on_noise() -> None:
    assert [rule_on(noise(2000, seed)) for seed in range(3)] == [[], [], []]


def test_rule_sees_spikes_and_shifts_both_ways() -> None:
    spiky = noise(500)
    spiky[400] += 1.5
    assert rule_on(spiky) == ["spike"]
    assert "shift-down" in rule_on(
        [loss - (0.35 if step > 700 else 0) for step, loss in enumerate(noise(900))]
    )
    assert "shift-up" in rule_on([loss + (0.3 if step > 700 else 0) for step, loss in enumerate(noise(900))])


def test_rule_says_once_that_a_level_stays() -> None:
    kinds = rule_on([loss + (2.0 if step >= 200 else 0) for step, loss in enumerate(noise(330))])
    assert kinds.count("does-not-recover") == 1 and kinds.index("does-not-recover") == 49


def watched(folder: Path, between: Any, steps: int = 24, dropout: float = 0.0) -> list[str]:
    """What is found in a loop into which `between(moment, step, model, optimizer)` reaches before the forward pass and before the update."""
    model = torch.nn.Sequential(
        torch.nn.Embedding(16, 8), torch.nn.Dropout(dropout), torch.nn.LayerNorm(8), torch.nn.Linear(8, 16)
    )
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": matrices}, {"params": vectors, "weight_decay": 0.0}], lr=1e-3)

    def loss_of(model: torch.nn.Module, ids: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())

    with watch(folder, model, optimizer, loss=loss_of) as w:
        for step in range(steps):
            ids = torch.randint(0, 16, (4, 9), generator=torch.Generator().manual_seed(step))
            optimizer.zero_grad()
            between("forward", step, model, optimizer)
            loss = loss_of(model, ids)
            loss.backward()
            w.feed(ids)
            between("update", step, model, optimizer)
            optimizer.step()
            w.step(loss, ids)
    return [f.id for f in w.findings]


def test_a_warm_up_that_moves_every_group_is_quiet(tmp_path: Path) -> None:
    def warm(moment: str, step: int, model: Any, optimizer: Any) -> None:
        for group in optimizer.param_groups:
            group["lr"] = 1e-4 * (step + 1)

    assert watched(tmp_path, warm, dropout=0.1) == []


def test_a_warm_up_of_one_group_only_is_named(tmp_path: Path) -> None:
    def warm(moment: str, step: int, model: Any, optimizer: Any) -> None:
        optimizer.param_groups[0]["lr"] = 1e-4 * (step + 1)

    assert watched(tmp_path, warm) == ["OPT-WIRING/group-left-behind"]


def test_a_gradient_cleared_before_the_update_is_named(tmp_path: Path) -> None:
    def clear(moment: str, step: int, model: Any, optimizer: Any) -> None:
        if moment == "update":
            optimizer.zero_grad(set_to_none=False)

    assert watched(tmp_path, clear)[0] == "OPT-WIRING/gradient-thrown-away"


def test_training_in_evaluation_mode_is_named_where_dropout_is_lost_by_it(tmp_path: Path) -> None:
    def sleep(moment: str, step: int, model: Any, optimizer: Any) -> None:
        model.eval()

    assert watched(tmp_path / "a", sleep, dropout=0.1) == ["OPT-WIRING/trains-in-eval-mode"]
    assert watched(tmp_path / "b", sleep) == []


def test_a_validation_between_backward_and_update_is_no_training(tmp_path: Path) -> None:
    def validate(moment: str, step: int, model: Any, optimizer: Any) -> None:
        if moment == "update":
            model.eval()
            with torch.no_grad():
                model(torch.zeros(1, 3, dtype=torch.long))
            model.train()

    assert watched(tmp_path, validate, dropout=0.1) == []
