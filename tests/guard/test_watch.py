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
