"""Learning-rate schedules in closed form: the factor at step s is arithmetic of s, so nothing has to be saved and a resume cannot drift.

Factors multiply each group's own base rate. Steps count from 0 (the first update) to `total_steps - 1`.
Sources: cosine with restarts, Loshchilov & Hutter 2017 (arXiv 1608.03983); inverse square root, Vaswani et al. 2017 (arXiv
1706.03762); warm-up–stable–decay, Hu et al. 2024 (arXiv 2404.06395), with the 1 - sqrt decay of Hägele et al. 2024 (arXiv 2405.18392).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from umsicht.recipe.train import ScheduleSettings


@dataclass(frozen=True)
class Schedule:
    """`settings` resolved against the length of a run."""

    settings: ScheduleSettings
    total_steps: int

    @property
    def warmup_steps(self) -> int:
        """Whole steps of warm-up; the given steps, else the given share of the run."""
        s = self.settings
        if s.warmup_steps is not None:
            return min(s.warmup_steps, self.total_steps)
        return round(s.warmup_share * self.total_steps)

    @property
    def decay_start(self) -> int:
        """First step of the decay phase (only `wsd` has a stable phase before it)."""
        if self.settings.shape != "wsd":
            return self.warmup_steps
        return max(self.warmup_steps, self.total_steps - round(self.settings.decay_share * self.total_steps))

    def factor(self, step: int) -> float:
        """The factor for the update of step `step` (0-based): linear warm-up to 1, then the shape, never below `floor`.

        A step past the end gets the factor of the last one: a run that goes on past its plan keeps its rate.
        """
        warmup = self.warmup_steps
        if step < warmup:
            return (step + 1) / warmup
        last = max(self.total_steps, warmup + 1)
        step = min(step, last - 1)
        floor = self.settings.floor
        return floor + (1.0 - floor) * self._shape(step, warmup, last)

    def _shape(self, step: int, warmup: int, last: int) -> float:
        """Value in [0, 1] after warm-up. The decay ends one step after the last, so that no update has rate zero."""
        s = self.settings
        progress = (step - warmup) / (last - warmup)
        if s.shape == "constant":
            return 1.0
        if s.shape == "cosine":
            return 0.5 * (1.0 + math.cos(math.pi * progress))
        if s.shape == "linear":
            return 1.0 - progress
        if s.shape == "inverse_sqrt":
            timescale = max(1, warmup)
            return math.sqrt(timescale / (step - warmup + timescale))
        if s.shape == "cycles":
            position = progress * s.cycles
            within = position - math.floor(position)
            return s.cycle_decay ** math.floor(position) * 0.5 * (1.0 + math.cos(math.pi * within))
        start = self.decay_start
        if step < start:
            return 1.0
        through = (step - start) / max(1, last - start)
        return 1.0 - math.sqrt(through) if s.decay == "sqrt" else 1.0 - through

    def draw(self, width: int = 60, height: int = 8) -> str:
        """The whole schedule as a text drawing, one column a share of the run: seen before the run, not guessed after it."""
        columns = [
            self.factor(round(i * max(0, self.total_steps - 1) / max(1, width - 1))) for i in range(width)
        ]
        blocks = " ▁▂▃▄▅▆▇█"
        lines = []
        for row in range(height - 1, -1, -1):
            cells = [min(8, max(0, round((value * height - row) * 8))) for value in columns]
            label = "1.0 ┤" if row == height - 1 else "0.0 ┤" if row == 0 else "    │"
            lines.append(label + "".join(blocks[cell] for cell in cells))
        return "\n".join(lines)
