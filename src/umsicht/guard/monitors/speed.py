"""How fast the steps are, and what they wait for."""

from __future__ import annotations

from collections import deque

from umsicht.findings import Finding
from umsicht.guard.monitors.said import add
from umsicht.guard.subject import numbers
from umsicht.train.hooks import Hook, View


class SpeedMonitor(Hook):
    """Tokens a second against the run's own median, and the share of time spent waiting for data."""

    name = "guard-speed"

    def __init__(self) -> None:
        self.rates: deque[float] = deque(maxlen=200)
        self.slow = 0
        self.waits: deque[float] = deque(maxlen=50)
        self.said: set[str] = set()

    def after_step(self, view: View) -> None:
        """Twenty slow steps in a row are no accident."""
        rate = view.row.get("train/tokens_per_s")
        wait = view.row.get("train/data_wait_s")
        if not isinstance(rate, int | float) or rate <= 0:
            return
        if isinstance(wait, int | float):
            tokens = max(1, int(view.batch.inputs.numel())) if view.batch is not None else 1
            self.waits.append(min(1.0, float(wait) * rate / tokens))
        usual = sorted(self.rates)[len(self.rates) // 2] if len(self.rates) >= 40 else None
        if usual is not None and rate < 0.5 * usual:
            self.slow += 1
        else:
            self.slow = 0
            self.rates.append(float(rate))
        if self.slow == 20 and "slow" not in self.said:
            self.said.add("slow")
            add(
                view,
                Finding(
                    "RECORD/slower",
                    "warn",
                    "run",
                    location=f"run: step {view.step}",
                    numbers=numbers(step=view.step, rate=float(rate), usual=usual),
                ),
            )
        if len(self.waits) == 50:
            share = sorted(self.waits)[25]
            if share > 0.2 and "wait" not in self.said:
                self.said.add("wait")
                add(
                    view,
                    Finding(
                        "RECORD/waits-for-data",
                        "warn",
                        "run",
                        location=f"run: step {view.step}",
                        numbers=numbers(step=view.step, share=share),
                    ),
                )
