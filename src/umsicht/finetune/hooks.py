"""What hangs on the loop of a fine-tuning stage: figures of the objective, and the held-out rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from umsicht.score import evaluating
from umsicht.train.hooks import EVERY_STEP, Hook, View

Measure = Callable[[Any, torch.device], dict[str, float]]
"""(model in evaluation mode, device) → figures."""


class Figures(Hook):
    """Logs what the objective noted during the step."""

    name = "figures"
    every = EVERY_STEP

    def __init__(self, figures: Callable[[], dict[str, float]]) -> None:
        self._figures = figures

    def before_step(self, view: View) -> None:
        """Forget what a validation left."""
        self._figures()

    def after_step(self, view: View) -> None:
        """Log this step's figures."""
        view.log(self._figures())


class HeldOut(Hook):
    """Logs `<prefix>/…` of the held-out rows before the first step, `count` times evenly, and after the last."""

    name = "held-out"
    every = EVERY_STEP

    def __init__(self, prefix: str, measure: Measure, count: int) -> None:
        self._prefix = prefix
        self._measure = measure
        self._count = count

    def at_start(self, view: View) -> None:
        """Where the stage starts from."""
        self._log(view)

    def after_step(self, view: View) -> None:
        """Log where it is due."""
        every = max(1, math.ceil(view.total_steps / self._count))
        if view.step % every == 0 or view.step == view.total_steps:
            self._log(view)

    def _log(self, view: View) -> None:
        with evaluating(view.model), torch.no_grad():
            figures = self._measure(view.model, view.device)
        view.log({f"{self._prefix}/{name}": value for name, value in figures.items()})
