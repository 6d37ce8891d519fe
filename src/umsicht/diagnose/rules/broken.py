"""Runs that broke: not finite, too good to be true, ground lost."""

from __future__ import annotations

from typing import Any

import numpy as np

from umsicht.diagnose.completeness import cite
from umsicht.diagnose.curves import GRAD, LR, TRAIN
from umsicht.diagnose.facts import Facts
from umsicht.diagnose.rules.case import Case, Ruling, around, ends, high_share, train_beside, turn
from umsicht.diagnose.rules.generalise import val_rises
from umsicht.diagnose.steering import val_never_finite


def nonfinite(case: Case) -> Ruling | None:
    """NaN or infinity in training or validation loss that the run did not come back from."""
    events = [event for event in case.of_kind("nonfinite") if not event.recovered]
    if not events or (events[-1].metric != TRAIN and val_never_finite(case.curves)):
        return None
    event = next((one for one in events if one.metric == TRAIN), events[-1])
    series = case.curves.get(event.metric)
    citations = [
        cite(series, event.step, "first_nonfinite"),
        cite(series, float(series.steps[-1]), "train_last"),
    ]
    before = series.between(-np.inf, event.step - 1).finite()
    if before:
        citations.insert(0, cite(before, float(before.steps[-1]), "last_finite"))
    for name in (GRAD, LR):
        beside = case.curves.get(name)
        if beside and event.metric == TRAIN:
            citations.append(cite(beside, event.step, "beside"))
    if len({citation.evidence for citation in citations}) < 3:
        middle = (event.step + int(series.steps[-1])) // 2
        citations.append(cite(series, middle, "still_nonfinite"))
    reason = "nonfinite" if before else "nonfinite-from-start"
    causes: tuple[str, ...] = ("nonfinite-data", "lr-too-high", "precision", "hardware")
    if not before:
        causes = ("bad-initialisation", "nonfinite-data", "precision", "lr-too-high")
    numbers = {"metric": event.metric, "step": event.step, "points": int(event.numbers["points"])}
    return Ruling("diverged", reason, tuple(citations), causes, numbers)


_LEAK = ("future-leak", "target-shift", "val-in-train", "easy-target", "wrong-loss-scale")


def too_good(case: Case) -> Ruling | None:
    """Both losses far below what fresh text allows, or near it long before anyone could be."""
    facts, limits = case.facts, case.limits
    if facts.train_end is None or facts.val_end is None or facts.val_best is None or not facts.initial:
        return None
    if case.curves.from_checkpoint:
        return None
    train_ratio, val_ratio = facts.ratio(facts.train_end), facts.ratio(facts.val_best)
    citations = tuple(ends(case))
    numbers: dict[str, Any] = {"ratio": val_ratio, "initial": facts.initial, "val": facts.val_best}
    if val_ratio is None or train_ratio is None:
        if facts.unit == "bits per byte" and facts.val_best < limits.too_good_bpb:
            return Ruling(
                "too-good", "too-good-level", citations, _LEAK, {"val": facts.val_best, "ratio": None}
            )
        return None
    if val_ratio < limits.too_good_ratio and train_ratio < 3 * limits.too_good_ratio:
        return Ruling("too-good", "too-good-level", citations, _LEAK, numbers)
    start = facts.ratio(facts.val_first)
    at_start = int(facts.val.steps[0]) <= max(1, facts.val.cadence // 2)
    if at_start and case.curves.vocab_size and start is not None and start < limits.too_good_start_ratio:
        numbers |= {"first": facts.val_first}
        return Ruling(
            "too-good", "too-good-at-start", citations, ("initialised-from-checkpoint", *_LEAK), numbers
        )
    fast = facts.val.values < limits.too_good_fast_ratio * facts.initial
    if fast.any() and train_ratio < 2 * limits.too_good_fast_ratio:
        step = int(facts.val.steps[int(np.argmax(fast))])
        share = (step - case.curves.first_step) / max(1, case.curves.last_step - case.curves.first_step)
        if step <= limits.too_good_fast_steps:
            numbers |= {"step": step, "share": share}
            return Ruling("too-good", "too-good-fast", citations, _LEAK, numbers)
    return None


def lost_ground(case: Case) -> Ruling | None:
    """Training loss ends above its own best, or stepped up and stayed: divergence if validation went along, else other data."""
    facts, limits = case.facts, case.limits
    if facts.train_best is None or facts.train_end is None or len(facts.train) < limits.min_train_points:
        return None
    least = max(
        limits.lost_share * abs(facts.train_best),
        limits.lost_floor,
        limits.lost_sigma * facts.train_end_error,
    )
    shifts = [
        event
        for event in case.of_kind("level-shift-up")
        if event.recovered is False
        and event.explained_by != "lr-bump"
        and event.numbers["jump"] > limits.lost_floor
    ]
    lost = facts.train_lost > least and facts.train_best_step < facts.train.steps[-1]
    if not lost and not shifts:
        return None
    best_ratio, end_ratio = facts.ratio(facts.train_best), facts.ratio(facts.train_end)
    shift = max(shifts, key=lambda event: event.numbers["jump"], default=None)
    onset = shift.step if shift else facts.train_best_step
    relative = max(
        facts.train_lost / abs(facts.train_best),
        shift.numbers["jump"] / abs(shift.numbers["before"]) if shift else 0,
    )
    followed = _val_followed(facts, onset, relative)
    high = best_ratio is not None and best_ratio >= high_share(facts, limits)
    if high and end_ratio is not None and end_ratio < 1 and not shifts and not followed:
        return None  # nothing was learned that could be lost; a step that stays, or validation going along, is still news
    citations = ends(case, val=False)
    if shift:
        citations += around(case, shift)
    else:
        citations.append(cite(facts.train, facts.train_best_step, "train_best"))
    if facts.val:
        citations += turn(case, facts.val, "val")
    numbers: dict[str, Any] = {
        "step": onset,
        "best": facts.train_best,
        "end": facts.train_end,
        "lost": facts.train_lost,
    }
    if shift:
        numbers |= {
            "before": shift.numbers["before"],
            "after": shift.numbers["after"],
            "jump": shift.numbers["jump"],
        }
    causes: tuple[str, ...] = ("lr-too-high", "no-clipping", "bad-rows", "instability")
    bumped = [
        bump for bump in case.of_kind("lr-bump") if bump.step <= onset + 3 * max(facts.train.cadence, 1)
    ]
    if end_ratio is not None and end_ratio >= 1 and lost:
        return Ruling("diverged", "diverged", tuple(citations), causes, numbers)
    if followed is False or (followed is None and shift is not None and not bumped):
        restarted = shift is not None and shift.explained_by == "restart"
        restart_first = ("resume-state",) if restarted else ()
        return Ruling(
            "level-shift-up",
            "harder-data" if followed is False else "step-up",
            tuple(citations),
            (*restart_first, "data-changed", "bad-rows", "batch-composition"),
            numbers,
            "high" if followed is False else "medium",
        )
    if not lost:
        return None
    if bumped:
        numbers |= {"factor": bumped[-1].numbers["factor"], "bump": bumped[-1].step}
        return Ruling("diverged", "diverged-lr-bump", tuple(citations), causes, numbers)
    return Ruling("diverged", "diverged", tuple(citations), causes, numbers, "high" if followed else "medium")


def _val_followed(facts: Facts, onset: int, relative: float) -> bool | None:
    """Whether validation rose with training after `onset` by at least a third as much; None where it was not measured after it."""
    val = facts.val
    before, after = val.between(-np.inf, onset), val.between(onset + 1, np.inf)
    if not before or not after:
        return None
    base = float(np.min(before.values[-3:]))
    rise = (float(np.median(after.values[-3:])) - base) / abs(base)
    return bool(rise > max(0.01, relative / 3))


def both_rise(case: Case) -> Ruling | None:
    """Validation rises and training does not fall: slow divergence, too slow for a step in the noisy training loss."""
    facts, limits = case.facts, case.limits
    if not val_rises(facts, limits) or facts.like_fall_after_best > 0:
        return None
    if len(facts.train) < limits.min_train_points:
        return None
    reach = max(5, len(facts.train) // 20)
    at = facts.train.at(facts.val_best_step)
    then = float(np.median(facts.train.values[max(0, at - reach) : at + reach + 1]))
    now = float(np.median(facts.train.values[-2 * reach :]))
    if now < then:
        return None
    citations = [*turn(case, facts.val, "val"), *train_beside(case)]
    numbers = {
        "best": facts.val_best,
        "best_step": facts.val_best_step,
        "end": facts.val_end,
        "then": then,
        "now": now,
    }
    causes = ("lr-too-high", "instability", "no-clipping")
    return Ruling("diverged", "both-rise", tuple(citations), causes, numbers, "medium")
