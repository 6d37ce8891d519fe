"""From "how long" to whole steps: resolved once, printed, recorded, reused on resume."""

from __future__ import annotations

import math
from collections.abc import Callable

from umsicht.findings import UserError
from umsicht.recipe.train import BudgetSettings
from umsicht.tokens.batch import BatchSource
from umsicht.words import t


def total_steps(budget: BudgetSettings, source: BatchSource, seconds_per_step: Callable[[], float]) -> int:
    """Optimizer steps of the whole run, at least one. `seconds_per_step` is measured only for a budget in minutes."""
    if budget.steps is not None:
        return budget.steps
    if budget.tokens is not None:
        return max(1, round(budget.tokens / source.tokens_per_batch))
    if budget.epochs is not None:
        return _steps_of_epochs(budget.epochs, source)
    assert budget.minutes is not None
    return max(1, int(budget.minutes * 60 / seconds_per_step()))


def _steps_of_epochs(epochs: float, source: BatchSource) -> int:
    probe = 1 << 20
    passed = source.epoch(probe)
    if passed <= 0:
        raise UserError(t("train.no_epochs"), fix=t("train.no_epochs_fix"))
    return max(1, math.ceil(epochs * probe / passed - 1e-9))
