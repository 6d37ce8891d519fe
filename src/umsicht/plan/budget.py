"""What a training costs when everything is counted: evaluations, checkpoints, at least one restart, repeats and a reserve."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from umsicht.findings import Finding
from umsicht.recipe.plan import PlanSettings

HOUR_S = 3600.0
TOKENS_PER_PARAMETER = 20.0
"""Compute-optimal tokens a parameter (Hoffmann et al. 2022, "Training compute-optimal large language models", table 3)."""
NEARLY_FREE_EPOCHS = 4.0
REPEAT_HALF_LIFE = 15.39
"""R*_D of Muennighoff et al. 2023, "Scaling data-constrained language models", §6: the decay of the worth of repeated data."""


@dataclass(frozen=True)
class Workload:
    """What is to be done, and what each part of it takes on one set of devices. Times in seconds of wall time."""

    steps: int
    step_s: float
    evaluations: int = 0
    evaluation_s: float = 0.0
    checkpoints: int = 0
    checkpoint_s: float = 0.0
    checkpoint_bytes: int = 0
    kept_checkpoints: int = 1
    start_s: float = 0.0
    steps_between_checkpoints: int = 0

    @property
    def training_s(self) -> float:
        """One training straight through, nothing going wrong."""
        return (
            self.start_s
            + self.steps * self.step_s
            + self.evaluations * self.evaluation_s
            + self.checkpoints * self.checkpoint_s
        )

    @property
    def restart_s(self) -> float:
        """One restart at the worst moment: the steps since the last checkpoint again, and everything that a start takes."""
        lost = self.steps_between_checkpoints or self.steps
        return min(lost, self.steps) * self.step_s + self.start_s + self.checkpoint_s


@dataclass(frozen=True)
class Cost:
    """The bill. `total_s` counts restarts, repeats and the reserve; device hours, money and energy are of all devices."""

    training_s: float
    restarts_s: float
    repeats: int
    reserve_s: float
    total_s: float
    device_hours: float
    energy_kwh: float
    storage_bytes: int
    money_devices: float
    money_energy: float
    money_storage: float

    @property
    def money(self) -> float:
        """All of it."""
        return self.money_devices + self.money_energy + self.money_storage

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return {**asdict(self), "money": self.money}


def bill(work: Workload, settings: PlanSettings, *, restarts: int | None = None) -> Cost:
    """Add everything up. `restarts` replaces the recipe's number."""
    restarts_s = (settings.restarts if restarts is None else restarts) * work.restart_s
    once = work.training_s + restarts_s
    reserve_s = settings.reserve * once * settings.repeats
    total_s = once * settings.repeats + reserve_s
    device_hours = settings.devices * total_s / HOUR_S
    energy_kwh = device_hours * settings.device_watts / 1000
    storage = work.checkpoint_bytes * work.kept_checkpoints * settings.repeats
    return Cost(
        training_s=work.training_s,
        restarts_s=restarts_s,
        repeats=settings.repeats,
        reserve_s=reserve_s,
        total_s=total_s,
        device_hours=device_hours,
        energy_kwh=energy_kwh,
        storage_bytes=storage,
        money_devices=device_hours * settings.price_per_device_hour,
        money_energy=energy_kwh * settings.price_per_kwh,
        money_storage=storage / 1e9 * settings.storage_months * settings.price_per_gb_month,
    )


def money_of(seconds: float, settings: PlanSettings) -> float:
    """Devices and their energy for `seconds` of wall time, without reserve, restarts or storage: what a finished run is graded by."""
    hours = settings.devices * seconds / HOUR_S
    return hours * (settings.price_per_device_hour + settings.device_watts / 1000 * settings.price_per_kwh)


def effective_tokens(unique: float, seen: float) -> float:
    """What `seen` tokens drawn from `unique` ones are worth, in unique tokens.

    D' = U + U·R*·(1 - e^(-R/R*)) with R repeats beyond the first pass (Muennighoff et al. 2023, equation 5).
    """
    if seen <= unique or unique <= 0:
        return min(seen, unique) if unique > 0 else 0.0
    repeats = seen / unique - 1
    return unique + unique * REPEAT_HALF_LIFE * (1 - math.exp(-repeats / REPEAT_HALF_LIFE))


def check(
    work: Workload,
    settings: PlanSettings,
    *,
    tokens_seen: float,
    usable_tokens: float,
    parameters: int,
    largest_fit: Callable[[float], tuple[str, int]] | None = None,
) -> list[Finding]:
    """BUDGET findings. `largest_fit(seconds of one training)` names the largest size that such a time can train, and its parameters."""
    return [
        *_check_cost(work, settings, largest_fit),
        *_check_data(tokens_seen, usable_tokens, parameters),
    ]


def _check_cost(
    work: Workload, settings: PlanSettings, largest_fit: Callable[[float], tuple[str, int]] | None
) -> list[Finding]:
    found = []
    if settings.restarts < 1:
        found.append(
            Finding(
                "BUDGET/no-restart",
                "warn",
                "plan",
                "plan.restarts",
                {"restart_hours": work.restart_s / HOUR_S},
            )
        )
    with_restart = bill(work, settings, restarts=max(1, settings.restarts))
    bare = bill(work, settings.model_copy(update={"reserve": 0.0}), restarts=0)
    for limit, needed, least, unit in (
        (settings.device_hours, with_restart.device_hours, bare.device_hours, "h"),
        (settings.money, with_restart.money, bare.money, settings.currency),
    ):
        if limit is None or needed <= limit:
            continue
        numbers: dict[str, Any] = {"budget": limit, "needed": needed, "without_restart": least, "unit": unit}
        numbers["fits"] = "–"
        if largest_fit is not None:
            numbers["fits"], numbers["fits_parameters"] = largest_fit(work.training_s * limit / needed)
        slug = "BUDGET/training-not-covered" if least > limit else "BUDGET/restart-not-covered"
        found.append(
            Finding(slug, "stop", "plan", "plan.device_hours" if unit == "h" else "plan.money", numbers)
        )
    return found


def _check_data(seen: float, usable: float, parameters: int) -> list[Finding]:
    found = []
    epochs = seen / usable if usable else math.inf
    numbers = {
        "tokens": seen,
        "usable_tokens": usable,
        "epochs": epochs,
        "parameters": parameters,
        "tokens_per_parameter": seen / parameters,
        "worth": effective_tokens(usable, seen),
        "largest_parameters": int(NEARLY_FREE_EPOCHS * usable / TOKENS_PER_PARAMETER),
    }
    if epochs > NEARLY_FREE_EPOCHS:
        found.append(Finding("BUDGET/too-many-epochs", "warn", "plan", "train.budget", numbers))
    if usable * NEARLY_FREE_EPOCHS < TOKENS_PER_PARAMETER * parameters:
        found.append(Finding("BUDGET/tokens-do-not-fit-size", "warn", "plan", "model.d_model", numbers))
    elif seen < 0.25 * TOKENS_PER_PARAMETER * parameters:
        found.append(Finding("BUDGET/under-trained", "note", "plan", "train.budget", numbers))
    return found
