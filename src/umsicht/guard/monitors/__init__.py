"""Monitors: what hangs on the loop while it trains."""

from __future__ import annotations

from typing import Any

import torch

from umsicht.guard.monitors.curve import CurveMonitor
from umsicht.guard.monitors.layers import LayerMonitor
from umsicht.guard.monitors.nonfinite import NonFiniteMonitor
from umsicht.guard.monitors.rate import RateMonitor
from umsicht.guard.monitors.rule import Alarm, SpikeRule
from umsicht.guard.monitors.samples import LedgerMonitor
from umsicht.guard.monitors.scores import ScoreMonitor
from umsicht.guard.monitors.speed import SpeedMonitor
from umsicht.guard.monitors.update import UpdateMonitor
from umsicht.recipe.guard import GuardSettings
from umsicht.recipe.train import TrainSettings
from umsicht.tokens.batch import IGNORE
from umsicht.train.budget import growth_of
from umsicht.train.hooks import Hook
from umsicht.train.objective import LanguageModelling

__all__ = ["Alarm", "CurveMonitor", "NonFiniteMonitor", "SpikeRule", "monitors"]


def monitors(
    check: GuardSettings,
    *,
    source: Any,
    settings: TrainSettings,
    schedule_steps: int | None = None,
    tokenizer: Any = None,
    objective: Any = None,
) -> list[Hook]:
    """The monitors of a run of Umsicht's own, in the order in which they must look: first whatever may stop the step."""
    regular = settings.regularisation
    computed = objective or LanguageModelling(
        label_smoothing=regular.label_smoothing,
        z_loss=regular.z_loss,
        document_mask=settings.document_mask,
    )

    def loss(model: Any, batch: Any) -> torch.Tensor:
        count = int((batch.targets != IGNORE).sum())
        total: torch.Tensor = computed(model, batch).objective / max(1, count)
        return total

    growth = growth_of(settings.phases, schedule_steps) if schedule_steps else None
    growing = [start + 1 for start in growth.starts] if growth else []
    every = check.monitors.every
    return [
        NonFiniteMonitor(loss, tokenizer, every),
        LedgerMonitor(source, check.monitors),
        RateMonitor(settings, schedule_steps),
        UpdateMonitor(settings.optimizer),
        CurveMonitor(check.monitors, tokenizer, growing),
        LayerMonitor(every),
        SpeedMonitor(),
        ScoreMonitor(),
    ]
