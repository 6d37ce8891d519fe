"""The size of an update against the most that its optimizer can make of the rate it is said to have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from umsicht.findings import Finding
from umsicht.guard.monitors.said import add
from umsicht.guard.subject import numbers
from umsicht.recipe.train import OptimizerSettings
from umsicht.train.groups import Group
from umsicht.train.hooks import Every, Hook, View

ROWS = 64
"""Of one parameter a group: enough to tell, and small whatever the model is."""
SINGULAR = 1.25
"""No singular value of Muon's update is larger (the quintic's highest point is 1.2)."""
LIMIT = 3.0
"""Times the most that is possible: what is left out of the bounds (rounding, the first steps' corrections) stays far below."""
EVERY = 5


@dataclass(frozen=True)
class Kept:
    """The first rows of a parameter before the update."""

    name: str
    parameter: torch.nn.Parameter
    group: Group
    before: torch.Tensor


class UpdateMonitor(Hook):
    """Says once that weights moved further than the told rate allows: the optimizer was handed another one, or moves twice."""

    name = "guard-update"
    sees_inside = True

    def __init__(self, settings: OptimizerSettings) -> None:
        self.every = Every(steps=EVERY)
        self.settings = settings
        self.said = False
        self.kept: list[Kept] = []

    def after_backward(self, view: View) -> None:
        """Keep a few rows of each group."""
        self.kept = []
        if self.said:
            return
        for group in getattr(view.optimizer, "groups", ()):
            whole = [pair for pair in zip(group.names, group.parameters, strict=True) if _is_plain(pair[1])]
            if whole:
                name, parameter = min(whole, key=lambda pair: pair[1].numel())
                self.kept.append(Kept(name, parameter, group, parameter.detach()[:ROWS].clone()))

    def after_step(self, view: View) -> None:
        """Compare. The last step may end with averaged weights."""
        if self.kept and not view.skipped and view.step < view.total_steps:
            factor = view.lr / view.optimizer.groups[0].rate if view.optimizer.groups[0].rate else 0.0
            found = [(share, one) for one in self.kept if (share := self._share(one, factor)) > LIMIT]
            if found:
                self.said = True
                share, one = max(found, key=lambda pair: pair[0])
                add(
                    view,
                    Finding(
                        "OPT-WIRING/update-too-large",
                        "warn",
                        "run",
                        location=f"optimizer: step {view.step}, {one.name}",
                        numbers=numbers(
                            step=view.step, name=one.name, times=share, rate=one.group.rate * factor
                        ),
                    ),
                )
        self.kept = []

    def _share(self, one: Kept, factor: float) -> float:
        """The update as a multiple of the largest possible one."""
        before, rate = one.before.float(), one.group.rate * factor
        moved = one.parameter.detach()[:ROWS].float() - before
        # Weights in half precision are the rounded masters.
        dtype = one.parameter.dtype
        rounding = 0.0 if dtype == torch.float32 else float(torch.finfo(dtype).eps)
        decay = rate * one.group.weight_decay
        most: float
        if one.group.algorithm == "muon":
            rows, columns = one.parameter.shape
            scale = max(1.0, rows / columns) ** 0.5
            most = rate * SINGULAR * scale * min(before.shape[0], columns) ** 0.5
            return float(moved.norm()) / (most + (decay + rounding) * float(before.norm()) + 1e-12)
        # Kingma and Ba 2015, section 2.1: the most an element moves, after a gradient that came alone.
        alone = (1 - self.settings.beta1) / (1 - self.settings.beta2) ** 0.5
        most = rate * max(1.0, alone)
        return float(moved.abs().max()) / (most + (decay + rounding) * float(before.abs().max()) + 1e-12)

    def state_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return {"said": self.said}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take it back."""
        self.said = bool(state.get("said"))


def _is_plain(parameter: torch.Tensor) -> bool:
    """Held whole by this process, and with rows to look at."""
    return parameter.dim() > 0 and parameter.numel() > 0 and not hasattr(parameter, "device_mesh")
