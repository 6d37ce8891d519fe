"""Validation scores as they come."""

from __future__ import annotations

from typing import Any

from umsicht.findings import Finding
from umsicht.guard.monitors.said import add
from umsicht.guard.subject import numbers
from umsicht.train.hooks import Hook, View


class ScoreMonitor(Hook):
    """Looks at validation scores as they come: one domain rising while the mean falls, a gap that opens, a validation too good to be true."""

    name = "guard-scores"

    def __init__(self) -> None:
        self.history: dict[str, list[float]] = {}
        self.gaps: list[float] = []
        self.said: set[str] = set()

    def after_step(self, view: View) -> None:
        """Only steps that carry scores."""
        scores = {
            key: float(value)
            for key, value in view.row.items()
            if key.startswith("val/") and key.endswith("/loss") and isinstance(value, int | float)
        }
        if not scores:
            return
        for key, value in scores.items():
            self.history.setdefault(key, []).append(value)
        self._domains(view)
        self._gap(view, scores)

    def _domains(self, view: View) -> None:
        total = self.history.get("val/all/loss", [])
        if len(total) < 4 or not total[-1] < total[-4]:
            return
        for key, values in self.history.items():
            if key == "val/all/loss" or len(values) < 4 or key in self.said:
                continue
            rising = values[-1] > values[-2] > values[-3] > values[-4] and values[-1] > min(values) + 0.05
            if rising:
                self.said.add(key)
                name = key.split("/")[1]
                add(
                    view,
                    Finding(
                        "CURVE/domain-rises",
                        "warn",
                        "run",
                        location=f"run: {name}",
                        numbers=numbers(
                            step=view.step,
                            slice=name,
                            value=values[-1],
                            best=min(values),
                            mean_fell=total[-4] - total[-1],
                        ),
                    ),
                )

    def _gap(self, view: View, scores: dict[str, float]) -> None:
        train = view.row.get("train_eval/loss")
        whole = scores.get("val/all/loss")
        if not isinstance(train, int | float) or whole is None:
            return
        gap = whole - float(train)
        self.gaps.append(gap)
        view.log({"guard/gap": gap})
        if (
            len(self.gaps) >= 4
            and "gap" not in self.said
            and self.gaps[-1] > self.gaps[-2] > self.gaps[-3]
            and gap > min(self.gaps) + 0.25
            and gap > 0.3
        ):
            self.said.add("gap")
            add(
                view,
                Finding(
                    "CURVE/gap-opens",
                    "warn",
                    "run",
                    location=f"run: step {view.step}",
                    numbers=numbers(step=view.step, gap=gap, least=min(self.gaps)),
                ),
            )

    def state_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return {"history": self.history, "gaps": self.gaps, "said": sorted(self.said)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self.history, self.gaps, self.said = dict(state["history"]), list(state["gaps"]), set(state["said"])
