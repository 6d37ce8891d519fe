"""An update that is larger than its optimizer can make at the told rate is named; every update that it does make is quiet."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import nn

from umsicht.guard.monitors.update import UpdateMonitor
from umsicht.recipe.train import OptimizerSettings
from umsicht.train.hooks import View
from umsicht.train.optimizer import Optimizer


class Trained:
    """A small module under a real optimizer, watched; gradients of every size, now and then one that comes alone."""

    def __init__(self, settings: OptimizerSettings, dtype: torch.dtype) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Embedding(90, 24), nn.Linear(24, 70), nn.Linear(70, 24)).to(dtype)
        self.optimizer = Optimizer(self.model, settings)
        self.monitor = UpdateMonitor(settings)
        self.findings: list[dict[str, Any]] = []
        self.step = 0

    def go(self, factor: float = 1.0, hidden: float = 1.0, decades: int = 4, **said: Any) -> None:
        """One step at `factor`, made at `hidden` times it, by gradients within some decades of 1."""
        self.step += 1
        view = cast(
            View,
            SimpleNamespace(
                optimizer=self.optimizer,
                step=self.step,
                total_steps=10_000,
                skipped=False,
                lr=self.optimizer.groups[0].rate * factor,
                run=SimpleNamespace(add_finding=self.findings.append),
            ),
        )
        for name, value in said.items():
            setattr(view, name, value)
        size = 10.0 ** float(torch.randint(-decades, decades + 1, ()))
        for parameter in self.model.parameters():
            parameter.grad = size * torch.randn_like(parameter)
        self.monitor.after_backward(view)
        self.optimizer.step(factor * hidden)
        self.monitor.after_step(view)


SETTINGS = [
    OptimizerSettings(kind="muon"),
    OptimizerSettings(kind="muon", weight_decay=0.3),
    OptimizerSettings(kind="adamw"),
    OptimizerSettings(kind="adamw", beta1=0.9, beta2=0.999, weight_decay=0.3),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("settings", SETTINGS)
def test_whatever_the_gradients_the_told_rate_bounds_the_update(
    settings: OptimizerSettings, dtype: torch.dtype
) -> None:
    trained = Trained(settings, dtype)
    for step in range(300):
        trained.go(factor=min(1.0, (step + 1) / 20))
    assert not trained.findings


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("settings", SETTINGS)
def test_a_rate_twenty_times_the_told_one_is_named_once(
    settings: OptimizerSettings, dtype: torch.dtype
) -> None:
    trained = Trained(settings, dtype)
    for _ in range(5):
        trained.go(decades=0)
    for _ in range(5):
        trained.go(hidden=20.0, decades=0)
    assert [found["id"] for found in trained.findings] == ["OPT-WIRING/update-too-large"]


def test_a_skipped_step_and_the_last_one_say_nothing() -> None:
    trained = Trained(SETTINGS[0], torch.float32)
    trained.go(hidden=20.0, skipped=True)
    trained.go(hidden=20.0, total_steps=2)
    assert not trained.findings
