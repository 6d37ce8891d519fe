"""The loss watched step by step: spikes and shifts, with the batch that came with them and the remedy the recipe names."""

from __future__ import annotations

from typing import Any

from umsicht.findings import Finding
from umsicht.guard.monitors.evidence import keep_batch
from umsicht.guard.monitors.rule import Alarm, SpikeRule
from umsicht.guard.subject import numbers
from umsicht.recipe.guard import MonitorSettings
from umsicht.train.hooks import Hook, Skip, StopRun, View

KEPT = 20


class CurveMonitor(Hook):
    """Judges the loss before the weights move, so that `skip` can still skip."""

    name = "guard-curve"

    def __init__(self, settings: MonitorSettings, tokenizer: Any = None) -> None:
        self.settings = settings
        self.tokenizer = tokenizer
        self.rule = SpikeRule()
        self.alarms = 0
        self.spiking_since: int | None = None
        self.norms: list[float] = []

    def after_backward(self, view: View) -> Skip | None:
        """One step."""
        alarm = self.rule.see(view.step, view.loss, view.lr)
        normal = sorted(self.norms)[len(self.norms) // 2] if self.norms else view.grad_norm
        if alarm is None:
            self.spiking_since = None
            self.norms = [*self.norms[-63:], view.grad_norm]
            return None
        first = alarm.kind != "spike" or self.spiking_since is None
        if alarm.kind == "spike" and self.spiking_since is None:
            self.spiking_since = view.step
        lasting = (
            alarm.kind == "spike" and self.spiking_since is not None and view.step - self.spiking_since == 50
        )
        remedy = self.settings.spike if alarm.kind == "spike" else self.settings.shift
        if first or lasting:
            finding = self._finding(view, alarm, normal, remedy, lasting)
            self.alarms += 1
            if self.alarms <= KEPT:
                keep_batch(view, finding, self.tokenizer)
            if remedy == "stop":
                raise StopRun(finding)
            view.run.add_finding({**finding.to_dict(), "step": view.step})
        return "skip" if remedy == "skip" and alarm.kind == "spike" else None

    def _finding(self, view: View, alarm: Alarm, normal: float, remedy: str, lasting: bool) -> Finding:
        name = "CURVE/does-not-recover" if lasting else f"CURVE/{alarm.kind}"
        grade = "stop" if remedy == "stop" else "warn"
        return Finding(
            name,
            grade,  # type: ignore[arg-type]  # one of two literals
            "run",
            location=f"run: step {view.step}",
            numbers={
                **numbers(
                    step=alarm.step,
                    value=alarm.value,
                    expected=alarm.expected,
                    scale=alarm.scale,
                    sigmas=alarm.sigmas,
                    grad_norm=view.grad_norm,
                    norm_factor=view.grad_norm / max(normal, 1e-12),
                    remedy=remedy,
                ),
            },
        )

    def state_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "rule": self.rule.state_dict(),
            "alarms": self.alarms,
            "since": self.spiking_since,
            "norms": self.norms,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self.rule.load_state_dict(state["rule"])
        self.alarms, self.spiking_since, self.norms = state["alarms"], state["since"], list(state["norms"])
