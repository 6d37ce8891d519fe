"""The planner's arithmetic. The same formulas run in the page's script; a test compares the two."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

MOST = 1e18


@dataclass(frozen=True)
class Assumptions:
    """What the sliders say. Rates are for the whole machine; `share_lost` is what a restart costs between two checkpoints."""

    parameters: float = 30e6
    tokens: float = 600e6
    tokens_per_s: float = 20e3
    price_per_hour: float = 2.0
    evaluation_share: float = 0.05
    checkpoints: float = 20.0
    checkpoint_bytes: float = 400e6
    restarts: float = 1.0
    usable_tokens: float = 0.0

    @classmethod
    def read(cls, given: Mapping[str, str | None], measured: Mapping[str, Any]) -> Assumptions:
        """Values of a form, else what was measured, else the defaults; nonsense falls back to the default."""
        values = asdict(cls())
        for name in values:
            known = measured.get(name)
            if isinstance(known, (int, float)) and not isinstance(known, bool) and known > 0:
                values[name] = float(known)
            try:
                wanted = float(given.get(name) or "nan")
            except ValueError:
                continue
            if math.isfinite(wanted) and 0 <= wanted <= MOST:
                values[name] = wanted
        return cls(**values)


@dataclass(frozen=True)
class Estimate:
    """What follows. Times in seconds."""

    training_s: float
    evaluation_s: float
    restart_s: float
    total_s: float
    cost: float
    flops: float
    disk_bytes: float
    tokens_per_parameter: float
    epochs: float | None


def estimate(given: Assumptions) -> Estimate:
    """FLOPs are 6 · parameters · tokens (Kaplan et al. 2020, section 2.1). A restart loses half an interval between checkpoints on average."""
    rate = max(given.tokens_per_s, 1e-9)
    training = given.tokens / rate
    evaluation = training * given.evaluation_share
    restart = given.restarts * (training / max(given.checkpoints, 1.0)) / 2
    total = training + evaluation + restart
    return Estimate(
        training,
        evaluation,
        restart,
        total,
        total / 3600 * given.price_per_hour,
        6 * given.parameters * given.tokens,
        given.checkpoints * given.checkpoint_bytes,
        given.tokens / max(given.parameters, 1.0),
        given.tokens / given.usable_tokens if given.usable_tokens > 0 else None,
    )
