"""Training falls and validation, or a slice of it, does not."""

from __future__ import annotations

from typing import Any

import numpy as np

from umsicht.diagnose.completeness import cite, last_on_grid
from umsicht.diagnose.facts import Facts
from umsicht.diagnose.rules.case import Case, Ruling, train_beside, turn
from umsicht.diagnose.series import Series, kendall_tau, noise_sigma
from umsicht.diagnose.thresholds import Thresholds

_OVERFIT = ("repeated-data", "distribution-difference", "context-handling")


def overfitting(case: Case) -> Ruling | None:
    """Validation rises (or stands still beside a large, growing gap) while training falls. A hypothesis, not yet a finding."""
    facts, limits = case.facts, case.limits
    val = facts.val
    if len(val) < limits.min_val_points or facts.val_best is None or not facts.train or facts.val_end is None:
        return None
    fell = facts.like_fall_after_best
    numbers: dict[str, Any] = {
        "best": facts.val_best,
        "best_step": facts.val_best_step,
        "end": facts.val_end,
        "rise": facts.val_rise,
        "train_fall": fell,
        "gap": facts.val_end - float(facts.like.values[-1]),
    }
    citations = [*turn(case, val, "val"), *train_beside(case)]
    rises = val_rises(facts, limits)
    if rises and fell > 0:
        return Ruling("overfitting", "val-rises", tuple(citations), _OVERFIT, numbers)
    return None


def val_stalls(case: Case) -> Ruling | None:
    """Overfitting before the rise: what training still gains no longer reaches validation, beside a wide gap that grows.

    Over the second half of the run validation gains less than a quarter of what training gains (or half, where the gap opens fast). Where the training loss was not re-measured
    on fixed tokens, its gain must stand out of the noise of the logged batches.
    """
    facts, limits, val = case.facts, case.limits, case.facts.val
    if len(val) < limits.min_val_points or not facts.like or facts.val_end is None:
        return None
    late = val.between(val.steps[0] + limits.stall_from * (val.steps[-1] - val.steps[0]), np.inf)
    if len(late) < 3:
        return None
    val_gain = float(late.values[0] - np.median(late.values[-2:]))
    train_gain = float(
        facts.like.values[facts.like.at(float(late.steps[0]))] - np.median(facts.like.values[-2:])
    )
    end = float(facts.like.values[-1])
    gap = facts.val_end - end
    growth = train_gain - val_gain
    if (
        train_gain <= max(limits.stall_train_fall * abs(end), limits.stall_sigma * facts.like_error)
        or gap <= limits.stall_gap_share * facts.val_end
    ):
        return None
    arrives, opens = val_gain / train_gain, growth / facts.val_end
    stalled = arrives < limits.stall_transfer and opens > limits.stall_gap_growth
    half = facts.like_for_like and arrives < limits.stall_half and opens > limits.stall_half_growth
    if not stalled and not half:
        return None
    numbers = {
        "best": facts.val_best,
        "best_step": facts.val_best_step,
        "end": facts.val_end,
        "train_fall": train_gain,
        "val_fall": val_gain,
        "gap": gap,
    }
    citations = [*turn(case, val, "val"), *train_beside(case)]
    return Ruling(
        "overfitting", "val-stalls" if stalled else "val-lags", tuple(citations), _OVERFIT, numbers, "medium"
    )


def val_rises(facts: Facts, limits: Thresholds) -> bool:
    """Whether validation ends above its best by 1 %, 0.02 nats and four times its noise, on at least two measurements."""
    if facts.val_best is None:
        return False
    after = facts.val.between(facts.val_best_step + 1, np.inf)
    least = max(
        limits.rise_share * abs(facts.val_best), limits.rise_floor, limits.rise_sigma * facts.val_noise
    )
    return (
        len(after) >= limits.rise_points
        and facts.val_rise > least
        and float(np.median(after.values[-2:])) - facts.val_best > 0.5 * least
        and kendall_tau(np.concatenate([[facts.val_best], after.values])) > 0
    )


def domain_divergence(case: Case) -> Ruling | None:
    """A slice gets worse behind the mean, and it is no small part: at least one in ten slices does."""
    return slice_rises(case, case.limits.domain_share)


def slice_rises(case: Case, least_share: float = 0.0) -> Ruling | None:
    """The slice that rose most, where at least `least_share` of all slices rise."""
    limits, facts = case.limits, case.facts
    slices = {name: series.finite() for name, series in case.curves.val_slices().items()}
    if len(slices) < 2:
        return None
    worst: tuple[float, str, Series] | None = None
    rising = 0
    for name, series in slices.items():
        if len(series) < limits.min_val_points:
            continue
        best = int(np.argmin(series.values))
        base = max(abs(float(series.values[best])), 1e-9)
        rise = float(np.median(series.values[-2:])) - float(series.values[best])
        least = max(
            limits.domain_rise_share * base,
            limits.domain_rise_floor,
            limits.domain_rise_sigma * noise_sigma(series.values[best:], 0.0),
        )
        if (
            len(series) - 1 - best >= limits.rise_points
            and kendall_tau(series.values[best:]) > 0
            and rise > least
        ):
            rising += 1
            if worst is None or rise / base > worst[0]:
                worst = (rise / base, name, series)
    if worst is None or rising < least_share * len(slices):
        return None
    share, name, series = worst
    best = int(np.argmin(series.values))
    citations = turn(case, series, "slice")
    if facts.val:
        citations.append(cite(facts.val, last_on_grid(facts.val), "val_last"))
        citations.append(cite(facts.val, float(series.steps[best]), "val_at_slice_best"))
    numbers = {
        "slice": name,
        "best": float(series.values[best]),
        "best_step": int(series.steps[best]),
        "end": float(series.values[-1]),
        "share": share,
        "mean": facts.val_end,
    }
    return Ruling(
        "domain-divergence",
        "slice-rises",
        tuple(citations),
        ("slice-repeats", "slice-share-too-small", "mix-changed"),
        numbers,
    )
