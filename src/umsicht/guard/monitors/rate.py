"""The learning rate against what was declared."""

from __future__ import annotations

from collections import deque
from typing import Any

from umsicht.findings import Finding
from umsicht.guard.monitors.said import add
from umsicht.guard.probes.closed_form import closed_form
from umsicht.guard.subject import numbers
from umsicht.recipe.train import TrainSettings
from umsicht.train.groups import resolved_rates
from umsicht.train.hooks import Hook, StopRun, View


class RateMonitor(Hook):
    """The learning rate against its closed form, every step: free and exact."""

    name = "guard-rate"

    def __init__(self, settings: TrainSettings, total_steps: int | None) -> None:
        self.settings = settings
        self.total = total_steps
        self.said = False
        self.clipped: deque[int] = deque(maxlen=200)

    def after_backward(self, view: View) -> None:
        """Compare; a wrong rate stops the run before it moves a weight."""
        total = self.total or view.total_steps
        first = getattr(view.optimizer, "groups", None)
        if not first:
            return
        base = resolved_rates(self.settings.optimizer)[first[0].role]
        want = base * closed_form(self.settings.schedule, total, view.step - 1)
        if abs(view.lr - want) > 1e-5 * max(base, want):
            raise StopRun(
                Finding(
                    "OPT-WIRING/schedule",
                    "stop",
                    "run",
                    location=f"schedule: step {view.step}",
                    numbers=numbers(step=view.step, rate=view.lr, expected=want),
                )
            )

    def after_step(self, view: View) -> None:
        """Share of clipped steps: a run that clips nearly every step trains with another rate than it says."""
        self.clipped.append(int(view.clipped))
        if len(self.clipped) < 200 or view.step % 50:
            return
        share = sum(self.clipped) / len(self.clipped)
        view.log({"guard/clipped_share": share})
        if share > 0.9 and not self.said:
            self.said = True
            add(
                view,
                Finding(
                    "OPT-WIRING/always-clipped",
                    "note",
                    "run",
                    location=f"run: step {view.step}",
                    numbers=numbers(step=view.step, share=share),
                ),
            )

    def state_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return {"said": self.said, "clipped": list(self.clipped)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self.said, self.clipped = bool(state["said"]), deque(state["clipped"], maxlen=200)
