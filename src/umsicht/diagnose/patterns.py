"""From facts and events to one verdict. Each rule stands alone and returns a ruling with the numbers it cites, or None."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from umsicht.diagnose.completeness import Citation, cite, last_on_grid
from umsicht.diagnose.curves import GRAD, LR, TRAIN, Curves
from umsicht.diagnose.facts import Facts
from umsicht.diagnose.model import Confidence, Event
from umsicht.diagnose.series import Series, kendall_tau, noise_sigma
from umsicht.diagnose.thresholds import Thresholds


@dataclass(frozen=True)
class Case:
    """Everything a rule may look at."""

    curves: Curves
    facts: Facts
    events: tuple[Event, ...]
    limits: Thresholds

    def of_kind(self, *kinds: str) -> list[Event]:
        """Events of these kinds, in order of step."""
        return [event for event in self.events if event.kind in kinds]


@dataclass(frozen=True)
class Ruling:
    """A verdict with its reason code, causes in the order to look, and what it cites."""

    verdict: str
    reason: str
    citations: tuple[Citation, ...]
    causes: tuple[str, ...] = ()
    numbers: dict[str, Any] = field(default_factory=dict)
    confidence: Confidence = "high"


def rules() -> tuple[Callable[[Case], Ruling | None], ...]:
    """The rules in the order in which they are asked: what makes the rest meaningless comes first."""
    return (
        nonfinite,
        too_good,
        saw_tooth,
        lost_ground,
        both_rise,
        both_high,
        overfitting,
        domain_divergence,
        val_stalls,
        dropped_level,
        plateau,
        both_fall,
    )


def _ends(case: Case, *, train: bool = True, val: bool = True) -> list[Citation]:
    """First and last of training and validation loss: what nearly every verdict cites."""
    found = []
    facts = case.facts
    if train and facts.train:
        found.append(cite(facts.train, float(facts.train.steps[0]), "train_first"))
        found.append(cite(facts.train, float(facts.train.steps[-1]), "train_last"))
    if val and facts.val:
        later = facts.val.between(1, np.inf)
        first = later if later else facts.val
        found.append(cite(facts.val, float(first.steps[0]), "val_first"))
        found.append(cite(facts.val, last_on_grid(facts.val), "val_last"))
    return found


def _turn(case: Case, series: Series, prefix: str) -> list[Citation]:
    """First, best and last of a validation curve; the best with everything near it that could have been the best."""
    best = int(np.argmin(series.values))
    spread = max(2 * noise_sigma(series.values, 0.0), 0.005 * abs(float(series.values[best])))
    near = series.steps[series.values <= series.values[best] + spread]
    cadence = max(series.cadence, 1)
    later = series.between(1, np.inf)
    return [
        cite(series, float((later or series).steps[0]), f"{prefix}_first"),
        cite(
            series,
            float(series.steps[best]),
            f"{prefix}_best",
            first=int(near[0]) - cadence,
            last=int(near[-1]) + cadence,
        ),
        cite(series, last_on_grid(series), f"{prefix}_last"),
    ]


def nonfinite(case: Case) -> Ruling | None:
    """NaN or infinity that the run did not come back from."""
    train = case.curves.get(TRAIN)
    events = [event for event in case.of_kind("nonfinite") if event.metric == TRAIN and not event.recovered]
    if not events:
        return None
    event = events[-1]
    citations = [
        cite(train, event.step, "first_nonfinite"),
        cite(train, float(train.steps[-1]), "train_last"),
    ]
    before = train.between(-np.inf, event.step - 1)
    from_start = not before.finite()
    if not from_start:
        citations.insert(0, cite(before.finite(), float(before.finite().steps[-1]), "last_finite"))
    for name in (GRAD, LR):
        series = case.curves.get(name)
        if series:
            citations.append(cite(series, event.step, "beside"))
    middle = (event.step + int(train.steps[-1])) // 2
    if len(citations) < 3:
        citations.append(cite(train, middle, "still_nonfinite"))
    reason = "nonfinite-from-start" if from_start else "nonfinite"
    causes: tuple[str, ...] = ("nonfinite-data", "lr-too-high", "precision", "hardware")
    if from_start:
        causes = ("bad-initialisation", "nonfinite-data", "precision", "lr-too-high")
    numbers = {"step": event.step, "points": int(event.numbers["points"])}
    return Ruling("diverged", reason, tuple(citations), causes, numbers)


def too_good(case: Case) -> Ruling | None:
    """Both losses far below what fresh text allows, or near it long before anyone could be."""
    facts, limits = case.facts, case.limits
    if facts.train_end is None or facts.val_end is None or facts.val_best is None or not facts.initial:
        return None
    if case.curves.from_checkpoint:
        return None
    train_ratio, val_ratio = facts.ratio(facts.train_end), facts.ratio(facts.val_best)
    citations = tuple(_ends(case))
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


_LEAK = ("future-leak", "target-shift", "val-in-train", "easy-target", "wrong-loss-scale")


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
    if (
        best_ratio is not None
        and end_ratio is not None
        and best_ratio >= _high(facts, limits)
        and end_ratio < 1
    ):
        return None  # nothing was learned that could be lost
    shift = max(shifts, key=lambda event: event.numbers["jump"], default=None)
    onset = shift.step if shift else facts.train_best_step
    relative = max(
        facts.train_lost / abs(facts.train_best),
        shift.numbers["jump"] / abs(shift.numbers["before"]) if shift else 0,
    )
    followed = _val_followed(facts, onset, relative)
    citations = _ends(case, val=False)
    if shift:
        citations += _around(case, shift)
    else:
        citations.append(cite(facts.train, facts.train_best_step, "train_best"))
    if facts.val:
        citations += _turn(case, facts.val, "val")
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


def _around(case: Case, event: Event) -> list[Citation]:
    """The points at both sides of a jump; the whole neighbourhood must be there."""
    series = case.facts.train
    cadence = max(series.cadence, 1)
    reach = 16 * cadence
    low, high = event.step - reach, event.step + reach
    return [
        cite(series, event.step - 2 * cadence, "before_jump", first=low, last=high),
        cite(series, event.step + 2 * cadence, "after_jump", first=low, last=high),
    ]


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
    citations = [*_turn(case, val, "val"), *_train_beside(case)]
    rises = val_rises(facts, limits)
    if rises and fell > 0:
        return Ruling("overfitting", "val-rises", tuple(citations), _OVERFIT, numbers)
    return None


def val_stalls(case: Case) -> Ruling | None:
    """Validation stands still beside a large gap while like-for-like training loss falls on: overfitting before the rise."""
    facts, limits, val = case.facts, case.limits, case.facts.val
    if len(val) < limits.min_val_points or not facts.like or facts.val_end is None:
        return None
    gap = facts.val_end - float(facts.like.values[-1])
    start = val.between(val.steps[0] + limits.stall_from * (val.steps[-1] - val.steps[0]), np.inf)
    if len(start) < 3:
        return None
    gain = (float(start.values[0]) - float(np.min(start.values[1:]))) / abs(float(start.values[0]))
    train_fall = float(facts.like.values[facts.like.at(float(start.steps[0]))] - facts.like.values[-1])
    wide = gap > limits.stall_gap_share * facts.val_end
    if (
        gain < limits.stall_gain
        and train_fall > limits.stall_train_fall * abs(float(facts.like.values[-1]))
        and wide
    ):
        numbers = {
            "best": facts.val_best,
            "best_step": facts.val_best_step,
            "end": facts.val_end,
            "train_fall": train_fall,
            "gap": gap,
        }
        citations = [*_turn(case, val, "val"), *_train_beside(case)]
        return Ruling("overfitting", "val-stalls", tuple(citations), _OVERFIT, numbers, "medium")
    return None


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
    citations = [*_turn(case, facts.val, "val"), *_train_beside(case)]
    numbers = {
        "best": facts.val_best,
        "best_step": facts.val_best_step,
        "end": facts.val_end,
        "then": then,
        "now": now,
    }
    causes = ("lr-too-high", "instability", "no-clipping")
    return Ruling("diverged", "both-rise", tuple(citations), causes, numbers, "medium")


def _train_beside(case: Case) -> list[Citation]:
    facts = case.facts
    series = facts.like if facts.like_for_like else facts.train
    return [
        cite(series, facts.val_best_step, "train_at_val_best"),
        cite(
            series,
            float(series.steps[-1]) if facts.like_for_like else float(facts.train.steps[-1]),
            "train_last",
        ),
    ]


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
        base = abs(float(series.values[best]))
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
    citations = _turn(case, series, "slice")
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


def dropped_level(case: Case) -> Ruling | None:
    """Training loss steps down and validation does not go along: easier or repeated data, not learning."""
    facts = case.facts
    events = [
        event
        for event in case.of_kind("level-shift-down")
        if event.explained_by != "lr-bump" and not _undoes_rise(case, event)
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
            *_around(case, event),
            cite(facts.val, float(before.steps[-1]), "val_before_jump"),
            cite(facts.val, float(after.steps[0]), "val_after_jump"),
            *_ends(case, val=False),
        ]
        causes: tuple[str, ...] = ("replayed-data", "easier-data", "padding-counted", "leak-from-here")
        if event.explained_by == "restart":
            causes = ("resume-replays", *causes)
        return Ruling("level-shift-down", "step-down", tuple(citations), causes, numbers)
    return None


def _undoes_rise(case: Case, event: Event) -> bool:
    """A fall that only ends a rise shortly before it (a bad stretch of data that is over)."""
    reach = 4 * case.limits.shift_width * max(case.facts.train.cadence, 1)
    return any(
        0 < event.step - other.step <= reach and other.numbers["jump"] > -0.5 * event.numbers["jump"]
        for other in case.of_kind("level-shift-up")
    )


def _high(facts: Facts, limits: Thresholds) -> float:
    """The share of the initial loss from which a loss counts as high; bytes and subword tokens differ."""
    bytes_like = facts.initial is not None and facts.initial <= limits.bytes_initial_loss
    return limits.high_ratio_bytes if bytes_like else limits.high_ratio_tokens


def both_high(case: Case) -> Ruling | None:
    """Both losses stay near what counting tokens would give."""
    facts, limits = case.facts, case.limits
    if not facts.initial or facts.val_end is None or facts.train_end is None:
        return None
    val_ratio, train_ratio = facts.ratio(facts.val_end), facts.ratio(facts.train_end)
    if val_ratio is None or train_ratio is None:
        return None
    high = _high(facts, limits)
    if min(val_ratio, train_ratio) < high:
        return None
    citations = tuple(_ends(case))
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


def plateau(case: Case) -> Ruling | None:
    """Nothing gained over the last two fifths of the run, above the level where nothing is left to gain."""
    facts, limits = case.facts, case.limits
    still = case.of_kind("frozen")
    flat = facts.plateau_gain is not None and facts.plateau_gain <= limits.plateau_gain
    if not still and not flat:
        return None
    start = still[0].step if still else facts.plateau_from
    citations = [*_ends(case), cite(facts.train, start, "train_plateau")]
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
    """Training loss repeats itself with the epoch."""
    for event in case.of_kind("saw-tooth"):
        train = case.facts.train
        period = event.numbers["period_steps"]
        last = int(train.steps[-1])
        window = train.between(last - 2 * period, last)
        high, low = int(np.argmax(window.values)), int(np.argmin(window.values))
        first = int(last - 2 * period)
        citations = [
            cite(train, float(window.steps[high]), "saw_top", first=first, last=last),
            cite(train, float(window.steps[low]), "saw_bottom", first=first, last=last),
            *_ends(case, train=True),
        ]
        numbers = {"period": period, **event.numbers}
        causes = ("sorted-data", "same-order", "memorised-epoch")
        return Ruling("saw-tooth", "saw-tooth", tuple(citations), causes, numbers)
    return None


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
    citations = tuple(_ends(case))
    numbers = {
        "val_first": facts.val_first,
        "val": facts.val_end,
        "train": facts.train_end,
        "falling": facts.still_falling,
    }
    return Ruling("healthy", "both-fall", citations, (), numbers)
