"""The curves of one run under Umsicht's metric names, whoever wrote them, and what was wrong with the file."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from umsicht.diagnose.series import Series

TRAIN, GRAD, LR, EPOCH = "train/loss", "train/grad_norm", "train/lr", "train/epoch"
VAL, TRAIN_EVAL = "val/all/loss", "train_eval/loss"


@dataclass
class Damage:
    """How the file differed from a clean record; every count is shown to the reader."""

    torn: int = 0
    unreadable: int = 0
    replaced: int = 0
    duplicates: int = 0
    out_of_order: int = 0
    nonfinite: int = 0
    missing_columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "torn": self.torn,
            "unreadable": self.unreadable,
            "replaced": self.replaced,
            "duplicates": self.duplicates,
            "out_of_order": self.out_of_order,
            "nonfinite": self.nonfinite,
            "missing_columns": list(self.missing_columns),
            "notes": list(self.notes),
        }


@dataclass
class Curves:
    """Series by name, restarts, damage, and what the manifest says about the plan."""

    series: dict[str, Series]
    source: str = ""
    format: str = "umsicht"
    rows: int = 0
    restarts: tuple[int, ...] = ()
    damage: Damage = field(default_factory=Damage)
    vocab_size: int | None = None
    planned_steps: int | None = None
    finished: bool | None = None
    from_checkpoint: bool = False
    predicted_loss: float | None = None
    epochs_declared: float | None = None

    def get(self, name: str) -> Series:
        """The series, empty where the record has none."""
        return self.series.get(name) or Series.of(name, [], [])

    @property
    def val(self) -> Series:
        """Validation loss over all slices; where only slices were logged, their mean is no substitute, so the only slice or nothing."""
        if self.get(VAL):
            return self.get(VAL)
        if self.get("val/all/bpb"):
            return self.get("val/all/bpb")
        slices = self.val_slices()
        return next(iter(slices.values())) if len(slices) == 1 else Series.of(VAL, [], [])

    def val_slices(self) -> dict[str, Series]:
        """Validation curves by slice, losses where logged, else bits per byte."""
        found: dict[str, Series] = {}
        for suffix in ("/bpb", "/loss"):
            for name, series in self.series.items():
                slice_ = name[4 : -len(suffix)]
                if name.startswith("val/") and name.endswith(suffix) and slice_ != "all":
                    found[slice_] = series
        return found

    @property
    def last_step(self) -> int:
        """The last step at which anything was logged."""
        return max((int(series.steps[-1]) for series in self.series.values() if len(series)), default=0)

    @property
    def first_step(self) -> int:
        """The first step at which anything was logged."""
        return min((int(series.steps[0]) for series in self.series.values() if len(series)), default=0)

    @property
    def initial_loss(self) -> float | None:
        """The loss of guessing: ln V where the vocabulary is known; else the first loss logged, where that can be one.

        It can where the log begins with the training and the value fits an untrained model: at least ln 55 at step 0 or 1, ln 180 a
        little later. A fine-tuned or continued model begins lower, and nothing is said about how high its losses are.
        """
        if self.vocab_size and self.vocab_size > 1:
            return math.log(self.vocab_size)
        if self.from_checkpoint:
            return None
        starts = []
        for series in (self.get(TRAIN), self.get(VAL)):
            clean = series.finite()
            if not clean or clean.steps[0] > max(1, 2 * series.cadence):
                continue
            least = math.log(55) if clean.steps[0] <= 1 else math.log(180)
            if clean.values[0] >= least:
                starts.append(float(clean.values[0]))
        return max(starts) if starts else None


def count_nonfinite(series: dict[str, Series]) -> int:
    """Number of NaN and infinite values over all series."""
    return int(sum(np.count_nonzero(~np.isfinite(one.values)) for one in series.values()))
