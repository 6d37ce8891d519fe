"""The declared learning rate in closed form, apart from the code that trains, and the real one held against it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from umsicht.findings import Finding
from umsicht.guard.probes.rehearse import Stage
from umsicht.guard.subject import numbers
from umsicht.recipe.train import ScheduleSettings


def closed_form(settings: ScheduleSettings, total: int, step: int) -> float:
    """The declared learning-rate factor, written down again from the recipe's words, so that a change in the code that trains is seen."""
    warmup = (
        min(settings.warmup_steps, total)
        if settings.warmup_steps is not None
        else round(settings.warmup_share * total)
    )
    if step < warmup:
        return (step + 1) / warmup
    end = max(total, warmup + 1)
    step = min(step, end - 1)
    span = (step - warmup) / (end - warmup)
    if settings.shape == "wsd":
        start = max(warmup, total - round(settings.decay_share * total))
        done = 0.0 if step < start else (step - start) / max(1, end - start)
        value = 1 - (math.sqrt(done) if settings.decay == "sqrt" else done)
    elif settings.shape == "constant":
        value = 1.0
    elif settings.shape == "cosine":
        value = (1 + math.cos(math.pi * span)) / 2
    elif settings.shape == "linear":
        value = 1 - span
    elif settings.shape == "inverse_sqrt":
        value = math.sqrt(max(1, warmup) / (step - warmup + max(1, warmup)))
    else:
        place = span * settings.cycles
        whole = math.floor(place)
        value = settings.cycle_decay**whole * (1 + math.cos(math.pi * (place - whole))) / 2
    return settings.floor + (1 - settings.floor) * value


def schedule(stage: Stage, seen: Sequence[float], trainer: Any) -> Iterator[Finding]:
    """Rates of the real loop at its first steps, and of the planned run at many steps, against the closed form."""
    from umsicht.train.groups import resolved_rates
    from umsicht.train.schedule import Schedule

    settings = stage.settings.schedule
    rates = resolved_rates(stage.settings.optimizer)
    first = trainer.carried.optimizer.groups[0]
    base = rates[first.role]
    for step, rate in enumerate(seen):
        want = base * closed_form(settings, 5, step)
        if abs(rate - want) > 1e-6 * max(base, want):
            yield Finding(
                "OPT-WIRING/schedule",
                "stop",
                "one-step",
                location=f"schedule: step {step}",
                numbers=numbers(step=step, rate=rate, expected=want),
            )
            return
    total = max(stage.steps, 1000)
    planned = Schedule(settings, total)
    for step in sorted({*range(21), *(round(total * part / 40) for part in range(41))}):
        got, want = planned.factor(step), closed_form(settings, total, step)
        if abs(got - want) > 1e-6:
            yield Finding(
                "OPT-WIRING/schedule",
                "stop",
                "one-step",
                location=f"schedule: step {step}",
                numbers=numbers(step=step, rate=got, expected=want),
            )
            return
