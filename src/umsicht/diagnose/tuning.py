"""What preference and reward training logs beside its loss, and what those figures give away. The loss itself says little there."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from umsicht.diagnose.curves import TRAIN, Curves
from umsicht.diagnose.series import Series

LEAST = 10
"""Points from which a third of a curve is worth a median."""

Said = tuple[str, dict[str, Any]]

NAMES: dict[str, tuple[str, ...]] = {
    "accuracy": ("tune/accuracy", "dpo/accuracy", "reward/accuracy", "train/rewards/accuracies"),
    "chosen": ("tune/chosen", "dpo/reward_chosen", "train/rewards/chosen"),
    "rejected": ("tune/rejected", "dpo/reward_rejected", "train/rewards/rejected"),
    "likes": ("tune/likes", "train/logps/chosen"),
    "dislikes": ("tune/dislikes", "train/logps/rejected"),
    "reward": ("tune/reward", "grpo/reward", "train/reward"),
    "spread": ("tune/reward_std", "train/reward_std"),
    "flat": ("tune/flat_groups", "grpo/flat_groups", "train/frac_reward_zero_std"),
    "kl": ("tune/kl", "grpo/kl", "train/kl"),
    "clipped": ("tune/clip_share", "train/clip_ratio"),
    "entropy": ("tune/entropy", "train/entropy"),
    "cut": ("tune/cut", "train/completions/clipped_ratio"),
}
"""Figure → its names in logs, ours first."""


def find(curves: Curves) -> list[Said]:
    """Codes and numbers of what the figures say, in the order to look at them; nothing where none was logged."""
    rules: tuple[Callable[[Curves], Said | None], ...] = (_at_ln2,)
    if any(_figure(curves, name) is not None for name in ("accuracy", "reward")):
        # Other training logs a divergence or an entropy too, and means something else by it.
        rules = (
            _at_ln2,
            _same_answers,
            _accuracy,
            _both_fall,
            _flat,
            _kl,
            _clipped,
            _entropy,
            _cut,
            _reward_falls,
        )
    return [said for rule in rules if (said := rule(curves)) is not None]


def _figure(curves: Curves, name: str) -> Series | None:
    for one in NAMES[name]:
        series = curves.get(one).finite()
        if len(series) >= LEAST:
            return series
    return None


def _thirds(series: Series, reduce: Callable[..., Any] = np.median) -> tuple[float, float]:
    third = max(3, len(series) // 3)
    return float(reduce(series.values[:third])), float(reduce(series.values[-third:]))


def _at_ln2(curves: Curves) -> Said | None:
    """A preference loss that stays at ln 2 compares two equal models."""
    loss = curves.get(TRAIN).finite()
    if len(loss) >= LEAST and bool((np.abs(loss.values - math.log(2)) < 2e-4).all()):
        return "tune-ln2", {"loss": float(loss.values[-1]), "points": len(loss)}
    return None


def _same_answers(curves: Curves) -> Said | None:
    """Chosen and rejected answers that are equally likely at every point are one and the same answer."""
    likes, dislikes = _figure(curves, "likes"), _figure(curves, "dislikes")
    if likes is None or dislikes is None or len(likes) != len(dislikes):
        return None
    same = bool((likes.values == dislikes.values).all()) and bool(likes.values.any())
    return ("tune-same-answers", {"points": len(likes)}) if same else None


def _accuracy(curves: Curves) -> Said | None:
    """Few pairs a step make accuracies jump, and equal rewards count as wrong in the first steps: only a surplus beyond three errors is said."""
    series = _figure(curves, "accuracy")
    if series is None:
        return None
    first, last = _thirds(series)
    if last == 0 == first:
        return "tune-ln2", {"loss": last, "points": len(series)}
    end = series.values[-(len(series) // 3) :]
    error = float(end.std()) / math.sqrt(len(end))
    if len(end) >= LEAST and float(end.mean()) + 3 * error < 0.5 and last < 0.45:
        return "tune-accuracy-low", {"accuracy": last, "points": len(series)}
    begun = float(series.values[: max(5, len(series) // 10)].min())
    return ("tune-accuracy-at-once", {"accuracy": begun}) if begun >= 0.98 else None


def _both_fall(curves: Curves) -> Said | None:
    """Rewards are differences of log-probabilities: both far below zero means that neither answer is likely any more."""
    chosen, rejected = _figure(curves, "chosen"), _figure(curves, "rejected")
    if chosen is None or rejected is None:
        return None
    ours, theirs = _thirds(chosen)[1], _thirds(rejected)[1]
    return ("tune-both-fall", {"chosen": ours, "rejected": theirs}) if max(ours, theirs) < -5 else None


def _flat(curves: Curves) -> Said | None:
    """Groups whose answers all earn the same teach nothing."""
    flat, spread, reward = (_figure(curves, name) for name in ("flat", "spread", "reward"))
    share = _thirds(flat)[1] if flat else (1.0 if spread and _thirds(spread, np.max)[1] <= 1e-6 else 0.0)
    if share < 0.8:
        return None
    earned = _thirds(reward)[1] if reward else math.nan
    return "tune-flat", {"share": round(100 * share, 1), "reward": earned}


def _kl(curves: Curves) -> Said | None:
    series = _figure(curves, "kl")
    if series is None:
        return None
    _, last = _thirds(series)
    if last < -0.01:
        return "tune-kl-negative", {"kl": last}
    return ("tune-kl-large", {"kl": last}) if last > 1.0 else None


def _clipped(curves: Curves) -> Said | None:
    series = _figure(curves, "clipped")
    last = _thirds(series)[1] if series else 0.0
    return ("tune-clipped", {"share": round(100 * last, 1)}) if last > 0.5 else None


def _entropy(curves: Curves) -> Said | None:
    series = _figure(curves, "entropy")
    if series is None:
        return None
    first, last = _thirds(series)
    return ("tune-entropy", {"first": first, "last": last}) if 0 <= last < 0.05 * first else None


def _cut(curves: Curves) -> Said | None:
    series = _figure(curves, "cut")
    last = _thirds(series)[1] if series else 0.0
    return ("tune-cut", {"share": round(100 * last, 1)}) if last > 0.8 else None


def _reward_falls(curves: Curves) -> Said | None:
    series = _figure(curves, "reward")
    if series is None:
        return None
    first, last = _thirds(series)
    third = max(3, len(series) // 3)
    error = math.hypot(
        *(float(part.std()) / math.sqrt(third) for part in (series.values[:third], series.values[-third:]))
    )
    fell = first - last > max(4 * error, 0.1 * abs(first), 1e-9)
    return ("tune-reward-falls", {"first": first, "last": last}) if fell else None
