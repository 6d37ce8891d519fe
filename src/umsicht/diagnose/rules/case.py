"""What rules look at, what they return, and the citations that many of them share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from umsicht.diagnose.completeness import Citation, cite, last_on_grid
from umsicht.diagnose.curves import Curves
from umsicht.diagnose.facts import Facts
from umsicht.diagnose.model import Confidence, Event
from umsicht.diagnose.series import Series, noise_sigma
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


def ends(case: Case, *, train: bool = True, val: bool = True) -> list[Citation]:
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


def turn(case: Case, series: Series, prefix: str) -> list[Citation]:
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


def around(case: Case, event: Event) -> list[Citation]:
    """The points at both sides of a jump; the whole neighbourhood must be there."""
    series = case.facts.train
    cadence = max(series.cadence, 1)
    reach = 16 * cadence
    low, high = event.step - reach, event.step + reach
    return [
        cite(series, event.step - 2 * cadence, "before_jump", first=low, last=high),
        cite(series, event.step + 2 * cadence, "after_jump", first=low, last=high),
    ]


def train_beside(case: Case) -> list[Citation]:
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


def high_share(facts: Facts, limits: Thresholds) -> float:
    """The share of the initial loss from which a loss counts as high; bytes and subword tokens differ."""
    bytes_like = facts.initial is not None and facts.initial <= limits.bytes_initial_loss
    return limits.high_ratio_bytes if bytes_like else limits.high_ratio_tokens
