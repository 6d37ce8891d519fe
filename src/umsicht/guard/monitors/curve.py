"""The loss watched step by step: spikes and shifts, with the batch that came with them and the remedy the recipe names."""

from __future__ import annotations

from collections.abc import Collection
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

    def __init__(
        self, settings: MonitorSettings, tokenizer: Any = None, growing: Collection[int] = ()
    ) -> None:
        """`growing`: the steps, counted from 1, from which on the batch is declared to be larger."""
        self.settings = settings
        self.tokenizer = tokenizer
        self.rule = SpikeRule()
        self.alarms = 0
        self.spiking_since: int | None = None
        self.norms: list[float] = []
        self.growing = growing

    def after_backward(self, view: View) -> Skip | None:
        """One step."""
        if view.step in self.growing:
            # A batch that grows changes the loss's course and its noise: the trend before says nothing of what follows.
            self.rule.trend.clear()
        alarm = self.rule.see(view.step, view.loss, view.lr)
        normal = sorted(self.norms)[len(self.norms) // 2] if self.norms else view.grad_norm
        if alarm is None:
            self.spiking_since = None
            self.norms = [*self.norms[-63:], view.grad_norm]
            return None
        first = alarm.kind != "spike" or self.spiking_since is None
        if alarm.kind == "spike" and self.spiking_since is None:
            self.spiking_since = view.step
        remedy = self._remedy(alarm)
        if first:
            finding = self._finding(view, alarm, normal, remedy)
            self.alarms += 1
            if self.alarms <= KEPT:
                keep_batch(view, finding, self.tokenizer)
            if remedy in ("stop", "rewind"):
                raise StopRun(finding)
            view.run.add_finding({**finding.to_dict(), "step": view.step})
        return "skip" if remedy == "skip" else None

    def _remedy(self, alarm: Alarm) -> str:
        """What the recipe asks for. A spike may recover by itself and a fall is no damage: neither is rewound."""
        if alarm.kind in ("spike", "does-not-recover"):
            wanted = self.settings.spike
            kept = {"skip": "spike", "rewind": "does-not-recover"}.get(wanted, alarm.kind)
        else:
            wanted = self.settings.shift
            kept = "shift-up" if wanted == "rewind" else alarm.kind
        return wanted if alarm.kind == kept else "note"

    def _finding(self, view: View, alarm: Alarm, normal: float, remedy: str) -> Finding:
        grade = "stop" if remedy in ("stop", "rewind") else "warn"
        return Finding(
            f"CURVE/{alarm.kind}",
            grade,  # type: ignore[arg-type]  # one of two literals
            "run",
            location=f"run: step {view.step}",
            numbers={
                **numbers(
                    step=alarm.step,
                    onset=alarm.onset,
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
