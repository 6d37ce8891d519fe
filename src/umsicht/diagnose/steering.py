"""What rate, gradient norm and validation say by themselves: a run that moves nothing, warms up to its end, or never scores a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from umsicht.diagnose.curves import GRAD, LR, TRAIN, VAL, Curves

LEAST = 10
LONG = 100
"""Points of a log that is no mere beginning."""

Said = tuple[str, dict[str, Any]]


def find(curves: Curves) -> list[Said]:
    """Codes and numbers, in the order to look at them."""
    rules: tuple[Callable[[Curves], Said | None], ...] = (_no_gradient, _rate_zero, _rate_rising, _val_never)
    return [said for rule in rules if (said := rule(curves)) is not None]


def _no_gradient(curves: Curves) -> Said | None:
    """A gradient norm of exactly zero to the end."""
    norm = curves.get(GRAD)
    count = _last(norm.values == 0.0)
    return ("no-gradient", {"step": int(norm.steps[-count]), "points": count}) if count >= LEAST else None


def _rate_zero(curves: Curves) -> Said | None:
    """A schedule may end at zero, in one step; longer than that nothing was learned."""
    rate = curves.get(LR)
    count = _last(rate.values == 0.0)
    if count < max(LEAST, 0.05 * len(rate)):
        return None
    return "rate-zero", {"step": int(rate.steps[-count]), "points": count}


def _rate_rising(curves: Curves) -> Said | None:
    """From the first point to the last the rate only rises: all of the run was warm-up."""
    rate = curves.get(LR).finite()
    planned = curves.planned_steps
    over = planned is None or bool(len(rate) and rate.steps[-1] >= 0.98 * planned)
    if len(rate) < LONG or not over or not bool((np.diff(rate.values) > 0).all()):
        return None
    return "rate-rising", {"first": float(rate.values[0]), "last": float(rate.values[-1])}


def _val_never(curves: Curves) -> Said | None:
    val = curves.get(VAL)
    return ("val-never-finite", {"points": len(val)}) if val_never_finite(curves) else None


def val_never_finite(curves: Curves) -> bool:
    """Whether no validation ever gave a number while training did to its end: the evaluation is at fault, not the run."""
    val, train = curves.get(VAL), curves.get(TRAIN)
    never = len(val) > 0 and not bool(np.isfinite(val.values).any())
    return never and len(train) > 0 and bool(np.isfinite(train.values[-1]))


def _last(bad: Any) -> int:
    """How many points at the end are all bad."""
    good = np.flatnonzero(~np.asarray(bad))
    return len(bad) - (int(good[-1]) + 1 if len(good) else 0)
