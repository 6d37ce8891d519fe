"""The level of both losses: dropped, high, flat, repeating, falling."""

from __future__ import annotations

from typing import Any

import numpy as np

from umsicht.diagnose.completeness import cite
from umsicht.diagnose.curves import EPOCH, LR
from umsicht.diagnose.model import Event
from umsicht.diagnose.rules.case import Case, Ruling, around, ends, high_share


def dropped_level(case: Case) -> Ruling | None:
    """Training loss steps down and validation does not go along: easier or repeated data, not learning."""
    facts = case.facts
    events = [
        event
        for event in case.of_kind("level-shift-down")
        if event.explained_by not in ("lr-bump", "lr-drop") and not _undoes_rise(case, event)
    ]
    for event in sorted(events, key=lambda event: event.numbers["jump"]):
        before, after = facts.val.between(-np.inf, event.step), facts.val.between(event.step + 1, np.inf)
        if not before or not after:
            continue
        fell = float(before.values[-1] - np.median(after.values[:2])) / abs(float(before.values[-1]))
        jump = -event.numbers["jump"] / abs(event.numbers["before"])
        if fell > 0.4 * jump or jump < 0.04:
            continue
        numbers = {"step": event.step, "val_fall": fell, **event.numbers}
        citations = [
            *around(case, event),
            cite(facts.val, float(before.steps[-1]), "val_before_jump"),
            cite(facts.val, float(after.steps[0]), "val_after_jump"),
            *ends(case, val=False),
        ]
        causes: tuple[str, ...] = ("replayed-data", "easier-data", "padding-counted", "leak-from-here")
        if event.explained_by == "restart":
            causes = ("resume-replays", *causes)
        elif event.explained_by == "epoch":
            causes = ("memorised-epoch", *causes)
        return Ruling("level-shift-down", "step-down", tuple(citations), causes, numbers)
    return None


def _undoes_rise(case: Case, event: Event) -> bool:
    """A fall that only ends a rise shortly before it (a bad stretch of data that is over)."""
    reach = 4 * case.limits.shift_width * max(case.facts.train.cadence, 1)
    return any(
        0 < event.step - other.step <= reach and other.numbers["jump"] > -0.5 * event.numbers["jump"]
        for other in case.of_kind("level-shift-up")
    )


def both_high(case: Case) -> Ruling | None:
    """Both losses stay near what counting tokens would give."""
    facts, limits = case.facts, case.limits
    if not facts.initial or facts.val_end is None or facts.train_end is None:
        return None
    val_ratio, train_ratio = facts.ratio(facts.val_end), facts.ratio(facts.train_end)
    if val_ratio is None or train_ratio is None:
        return None
    high = high_share(facts, limits)
    if min(val_ratio, train_ratio) < high:
        return None
    if any(_learned_before(case, event) for event in case.of_kind("frozen")):
        return None  # high, but it did learn and then stopped moving: that is the news
    citations = tuple(ends(case))
    numbers = {
        "ratio": val_ratio,
        "initial": facts.initial,
        "val": facts.val_end,
        "train": facts.train_end,
        "limit": high,
    }
    if 1 - val_ratio < limits.no_learning_share:
        frozen = bool(case.of_kind("frozen"))
        first = ("updates-lost", "lr-too-small") if frozen else ("lr-too-small", "updates-lost")
        return Ruling("both-high", "no-learning", citations, (*first, "targets-wrong"), numbers)
    if facts.still_falling is not None and facts.still_falling > limits.falling_share:
        causes = ("too-little-training", "lr-too-small", "capacity")
        return Ruling(
            "both-high", "still-falling", citations, causes, {**numbers, "falling": facts.still_falling}
        )
    return Ruling(
        "both-high",
        "stuck-high",
        citations,
        ("targets-wrong", "lr-unsuitable", "capacity", "updates-lost"),
        numbers,
    )


def _learned_before(case: Case, event: Event) -> bool:
    """Whether validation had fallen by more than a model gains that learns nothing, before the weights stood still."""
    before = case.facts.ratio(event.numbers["value"])
    return before is not None and 1 - before > 3 * case.limits.no_learning_share


def plateau(case: Case) -> Ruling | None:
    """Nothing gained over the last two fifths of the run, above the level where nothing is left to gain."""
    facts, limits = case.facts, case.limits
    still = case.of_kind("frozen")
    flat = facts.plateau_gain is not None and facts.plateau_gain <= limits.plateau_gain
    if not still and not flat:
        return None
    start = still[0].step if still else facts.plateau_from
    citations = [*ends(case), cite(facts.train, start, "train_plateau")]
    if facts.val:
        citations.append(cite(facts.val, start, "val_plateau"))
    lr = case.curves.get(LR).finite()
    numbers: dict[str, Any] = {"gain": facts.plateau_gain, "step": start, "end": facts.end}
    if lr:
        citations.append(cite(lr, start, "lr_plateau"))
    if still:
        low = facts.lr_share is not None and facts.lr_share < limits.plateau_lr_share
        causes: tuple[str, ...] = (
            ("lr-ended",) if low else ("updates-lost", "frozen-parameters", "val-cached")
        )
        return Ruling("plateau", "frozen-lr" if low else "frozen", tuple(citations), causes, numbers)
    if facts.lr_share is not None and facts.lr_share < limits.plateau_lr_share:
        numbers |= {"lr_share": facts.lr_share}
        return Ruling("plateau", "lr-ended", tuple(citations), ("lr-ended",), numbers)
    causes = ("lr-too-high-late", "capacity", "data-exhausted")
    return Ruling("plateau", "flat", tuple(citations), causes, numbers, "high" if lr else "medium")


def saw_tooth(case: Case) -> Ruling | None:
    """Training loss repeats itself with the epoch; a model that learned nothing has no shape to repeat."""
    ratio = case.facts.ratio(case.facts.train_best)
    if ratio is not None and ratio >= high_share(case.facts, case.limits):
        return None
    for event in case.of_kind("saw-tooth"):
        train = case.facts.train
        period = event.numbers["period_steps"]
        if _is_staircase(case, period):
            continue
        last = int(train.steps[-1])
        window = train.between(last - 2 * period, last)
        high, low = int(np.argmax(window.values)), int(np.argmin(window.values))
        first = int(last - 2 * period)
        citations = [
            cite(train, float(window.steps[high]), "saw_top", first=first, last=last),
            cite(train, float(window.steps[low]), "saw_bottom", first=first, last=last),
            *ends(case, train=True),
        ]
        numbers = {"period": period, **event.numbers}
        causes = ("sorted-data", "same-order", "memorised-epoch")
        return Ruling("saw-tooth", "saw-tooth", tuple(citations), causes, numbers)
    return None


def _is_staircase(case: Case, period: float) -> bool:
    """Level inside each epoch and a step down at each edge: text learned by heart, pass by pass, not an order that comes back."""
    train = case.facts.train
    epoch = case.curves.get(EPOCH).finite()
    if len(epoch) < 3 or epoch.values[-1] <= epoch.values[0]:
        return False
    length = float((epoch.steps[-1] - epoch.steps[0]) / (epoch.values[-1] - epoch.values[0]))
    if not 0.9 < period / length < 1.1:
        return False
    inside, edges, last = [], [], None
    for start in np.arange(float(train.steps[0]), float(train.steps[-1]), length):
        part = train.between(start, start + length - 1).values
        if len(part) < 18:
            continue
        levels = [float(np.median(piece)) for piece in np.array_split(part, 6)]
        inside.append(max(levels) - min(levels))
        if last is not None:
            edges.append(last - levels[0])
        last = levels[-1]
    # In the first epoch everything is learned at once.
    return len(edges) >= 2 and min(edges) > 2 * max(inside[1:])


def both_fall(case: Case) -> Ruling | None:
    """Both losses fall: encouraging, and no proof that the answers are good."""
    facts = case.facts
    if facts.val_first is None or facts.val_end is None or facts.val_best is None or not facts.train:
        return None
    train_fall = float(np.median(facts.train.values[:5])) - float(facts.train_end or 0.0)
    if (
        facts.val_first - facts.val_end <= max(2 * facts.val_noise, 0.01 * abs(facts.val_first))
        or train_fall <= 0
    ):
        return None
    citations = tuple(ends(case))
    numbers = {
        "val_first": facts.val_first,
        "val": facts.val_end,
        "train": facts.train_end,
        "falling": facts.still_falling,
    }
    return Ruling("healthy", "both-fall", citations, (), numbers)
