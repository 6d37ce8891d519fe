"""From "how long" to whole steps: resolved once, printed, recorded, reused on resume."""

from __future__ import annotations

import math
from collections.abc import Callable

from umsicht.findings import UserError
from umsicht.recipe.train import BudgetSettings, PhaseSettings
from umsicht.tokens.batch import BatchSource
from umsicht.tokens.growth import Growth
from umsicht.words import t


def total_steps(budget: BudgetSettings, source: BatchSource, seconds_per_step: Callable[[], float]) -> int:
    """Optimizer steps of the whole run, at least one. `seconds_per_step` is measured only for a budget in minutes."""
    if budget.steps is not None:
        return budget.steps
    growth = getattr(source, "growth", None)
    if growth is not None:
        return _growing(budget, source, growth)
    if budget.tokens is not None:
        return max(1, round(budget.tokens / source.tokens_per_batch))
    if budget.epochs is not None:
        return _steps_of_epochs(budget.epochs, source)
    assert budget.minutes is not None
    return max(1, int(budget.minutes * 60 / seconds_per_step()))


def growth_of(phases: PhaseSettings, steps: int | None) -> Growth | None:
    """How the batch grows in a run of `steps` steps; None where it does not. Raises UserError where the length is not known before the run."""
    if phases.small_batches is None:
        return None
    if steps is None:
        raise UserError(
            t("train.growth_needs_steps"),
            where="train.phases.small_batches",
            fix=t("train.growth_needs_steps_fix"),
        )
    return Growth(phases.small_batches, phases.small_share, steps)


def planned_tokens(source: BatchSource, steps: int) -> int:
    """Tokens that a run of `steps` steps reads."""
    growth: Growth | None = getattr(source, "growth", None)
    if growth is None:
        return steps * source.tokens_per_batch
    return growth.parts_before(steps) * source.tokens_per_batch // growth.first


def tokens_at(source: BatchSource, step: int) -> int:
    """Targets of the global batch of `step` (0-based): of a source whose batches grow, that step's own."""
    found: Callable[[int], int] | None = getattr(source, "tokens_at", None)
    return source.tokens_per_batch if found is None else found(step)


def rows_at(source: BatchSource, step: int) -> int | None:
    """Rows of the global batch of `step`, where the source says so."""
    found: Callable[[int], int] | None = getattr(source, "rows_at", None)
    return None if found is None else found(step)


def _growing(budget: BudgetSettings, source: BatchSource, growth: Growth) -> int:
    """Of a growing batch: what is read decides, not the number of steps."""
    if budget.tokens is not None:
        return growth.steps_for(budget.tokens / source.tokens_per_batch)
    assert budget.epochs is not None
    probe = 1 << 20
    whole_batches = growth.parts_before(probe) / growth.first
    return growth.steps_for(budget.epochs * whole_batches / source.epoch(probe))


def _steps_of_epochs(epochs: float, source: BatchSource) -> int:
    probe = 1 << 20
    passed = source.epoch(probe)
    if passed <= 0:
        raise UserError(t("train.no_epochs"), fix=t("train.no_epochs_fix"))
    return max(1, math.ceil(epochs * probe / passed - 1e-9))
