"""Recipe section `check`: the contracts before the run and the monitors during it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from umsicht.recipe.base import Section

Remedy = Literal["note", "stop", "skip", "rewind"]


class MonitorSettings(Section):
    """What watches the run, and what an alarm does. A value that is not finite always stops the run before the weights move."""

    spike: Remedy = "note"
    """A loss above median + 6 MAD of the last 64 steps: note it, stop, skip the step, or, where it does not recover within 50 steps, rewind once to the last checkpoint before it and leave the window out."""

    shift: Literal["note", "stop", "rewind"] = "note"
    """The level of the loss moves by more than 6 standard errors against its own trend, up or down; only a rise is rewound."""

    every: int = Field(default=50, gt=0)
    """Steps between looks at layers: update sizes, activation and logit scale, dead layers."""

    stop_at_repeats: bool = True
    """Stop where a sample comes twice inside an epoch; off: only note it."""


class GuardSettings(Section):
    """What is checked and what an alarm does."""

    stability_steps: int = Field(default=50, ge=0)
    """Steps of the stability rehearsal on rows of a quarter length; 0 leaves it out."""

    rehearsal_tokens: int | None = Field(default=None, ge=0)
    """A run of at most so many tokens may begin unchecked; not given: every run is checked first, since each is longer than one per cent of itself."""

    overlap_allowed: float = Field(default=0.0, ge=0, le=1)
    """Share of validation documents that may stand in the training data; more stops."""

    overfit_one_batch: bool = True
    """Whether the model must learn one small batch by heart before the run."""

    monitors: MonitorSettings = MonitorSettings()
