"""Early stopping on a chosen figure, and the best value of every figure whose checkpoint is kept. Both survive a resume."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from umsicht.recipe.train import EarlyStoppingSettings

Direction = Literal["down", "up"]


def improves(value: float, best: float | None, direction: Direction, min_delta: float = 0.0) -> bool:
    """True where `value` is better than `best` by more than `min_delta`; a non-finite value never is."""
    if not math.isfinite(value):
        return False
    if best is None:
        return True
    return value < best - min_delta if direction == "down" else value > best + min_delta


@dataclass
class Best:
    """Best value of one figure and the step it was seen at."""

    value: float
    step: int


class BestValues:
    """Best value seen of each watched figure."""

    def __init__(self, watched: Mapping[str, Direction]) -> None:
        self._watched = dict(watched)
        self.best: dict[str, Best] = {}

    def update(self, row: Mapping[str, Any], step: int) -> list[str]:
        """Names of the figures that this row improved."""
        improved = []
        for metric, direction in self._watched.items():
            value = row.get(metric)
            earlier = self.best.get(metric)
            if value is not None and improves(float(value), earlier.value if earlier else None, direction):
                self.best[metric] = Best(float(value), step)
                improved.append(metric)
        return improved

    def state_dict(self) -> dict[str, Any]:
        return {metric: asdict(best) for metric, best in self.best.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.best = {metric: Best(**best) for metric, best in state.items()}


class EarlyStopping:
    """Counts validations without improvement."""

    def __init__(self, settings: EarlyStoppingSettings) -> None:
        self.settings = settings
        self.best: Best | None = None
        self.waited = 0

    def update(self, row: Mapping[str, Any], step: int) -> bool:
        """True where patience is used up. Rows without the figure do not count."""
        value = row.get(self.settings.metric)
        if value is None:
            return False
        best = self.best.value if self.best else None
        if improves(float(value), best, self.settings.direction, self.settings.min_delta):
            self.best, self.waited = Best(float(value), step), 0
        else:
            self.waited += 1
        return self.waited >= self.settings.patience

    def state_dict(self) -> dict[str, Any]:
        return {"best": asdict(self.best) if self.best else None, "waited": self.waited}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.best = Best(**state["best"]) if state["best"] else None
        self.waited = int(state["waited"])
