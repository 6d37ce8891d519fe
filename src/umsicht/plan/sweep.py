"""Learning rate and batch size searched on small models and carried to the target.

One factor multiplies every base rate of the recipe. It is searched at a small width, searched again around its optimum at a larger one, and carried
on: unchanged where both optima agree within half a doubling (Muon's orthogonal updates are scaled to the matrix, so that its rate should not depend
on width; Jordan et al. 2024; the idea of carrying rates over widths is muP's, Yang et al. 2022, arXiv 2203.03466), else along the slope that was measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from umsicht.model import ModelConfig
from umsicht.plan.measure import MeasureInputs, configs, family
from umsicht.plan.trial import Bench, Trial, run_trial
from umsicht.recipe.train import TrainSettings
from umsicht.record import QUIET, Artifact, Progress
from umsicht.record.environment import hardware
from umsicht.record.ids import content_id
from umsicht.tokens import TokenData
from umsicht.train.groups import ROLES, resolved_rates
from umsicht.words import t

STAGE_VERSION = 1
KIND = "sweep"
AGREES = 0.5
"""Doublings of the rate within which two optima count as one: the grid is one doubling wide."""
EDGE = 3
"""Doublings beyond the recipe's rates that the search may go."""
NOISE = 0.006
"""Relative difference of two scores that one seed cannot tell apart (docs/measured/defaults.md)."""
MIN_STEPS = 60
TRIES = 9
"""Trainings of a whole sweep, as a rule: three rates at two widths (one more where the optimum lies at the edge), two more batch sizes."""


@dataclass(frozen=True)
class Try:
    """One short training: the factor on every rate, the tokens of a step, and the score it came to."""

    d_model: int
    factor: float
    batch_tokens: int
    tokens: int
    bpb: float
    seconds: float


@dataclass(frozen=True)
class Sweep:
    """What was tried and what follows. `slope`: doublings of the best factor for each doubling of width; 0 where the rate carries over."""

    tries: list[Try]
    small_width: int
    small_factor: float
    large_width: int
    large_factor: float
    slope: float
    target_width: int
    factor: float
    rates: dict[str, float]
    batch_tokens: int
    seconds: float

    @property
    def carries(self) -> bool:
        """Whether the rate was found not to depend on width."""
        return self.slope == 0.0

    def overrides(self) -> list[str]:
        """The result as `--set` arguments."""
        named = [f"train.optimizer.{role}_rate={rate:.4g}" for role, rate in self.rates.items()]
        return [*named, f"train.global_batch_tokens={self.batch_tokens}"]

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return {**asdict(self), "carries": self.carries, "overrides": self.overrides()}


def sweep(inputs: MeasureInputs, seconds: float, *, progress: Progress = QUIET) -> Artifact:
    """Search within about `seconds`; the finished sweep where this machine and family have one."""

    def make(folder: Path) -> dict[str, Any]:
        data = TokenData.open(inputs.tokens.path)
        bench = Bench(data, inputs.mix, inputs.train, inputs.seed)
        models = configs(inputs.model, data.n_tokens)
        progress.stage(t("plan.sweeping"), total=TRIES, unit="trainings")

        def run(config: ModelConfig, train: TrainSettings, steps: int) -> Trial:
            made = run_trial(replace(bench, train=train), config, steps)
            progress.advance(1, f"d_model {config.d_model}: {made.bpb['all']:.3f}")
            return made

        found = search(inputs.train, models[0], models[-1], inputs.model.d_model, seconds, run)
        progress.close()
        return found.to_dict()

    return inputs.store.build(
        KIND,
        inputs.name,
        stage_version=STAGE_VERSION,
        settings={**family(inputs), "d_model": inputs.model.d_model, "seconds": seconds},
        inputs={"tokens": inputs.tokens.id, "hardware": content_id(hardware())},
        make=make,
    )


Runner = Callable[[ModelConfig, TrainSettings, int], Trial]


def search(
    train: TrainSettings,
    small: ModelConfig,
    large: ModelConfig,
    target_width: int,
    seconds: float,
    run: Runner,
) -> Sweep:
    """The search itself; `run` trains a configuration for a number of steps."""
    probe = run(small, train, 4)
    step_s = probe.step_s * (1 + large.d_model / small.d_model) / 2
    steps = max(MIN_STEPS, int(seconds / TRIES / max(step_s, 1e-6)))
    tries: list[Try] = []

    def score(config: ModelConfig, factor: float, batch_tokens: int) -> float:
        """Equal tokens whatever the batch; each point once."""
        for known in tries:
            if (known.d_model, known.factor, known.batch_tokens) == (config.d_model, factor, batch_tokens):
                return known.bpb
        changed = scaled(train, factor).model_copy(update={"global_batch_tokens": batch_tokens})
        made = run(config, changed, max(1, steps * train.global_batch_tokens // batch_tokens))
        tries.append(Try(config.d_model, factor, batch_tokens, made.tokens, made.bpb["all"], made.wall_s))
        return made.bpb["all"]

    batch = train.global_batch_tokens
    small_factor = best_factor(lambda factor: score(small, factor, batch), 1.0)
    large_factor = small_factor
    if large.d_model > small.d_model:
        start = 2.0 ** round(math.log2(small_factor))
        large_factor = best_factor(lambda factor: score(large, factor, batch), start)
    slope, factor = carry(small.d_model, small_factor, large.d_model, large_factor, target_width)
    chosen = _batch(lambda size, rate: score(small, rate, size), batch, small.seq_len, small_factor)
    rates = {role: rate * factor for role, rate in resolved_rates(train.optimizer).items()}
    return Sweep(
        tries=tries,
        small_width=small.d_model,
        small_factor=small_factor,
        large_width=large.d_model,
        large_factor=large_factor,
        slope=slope,
        target_width=target_width,
        factor=factor,
        rates={str(role): rate for role, rate in rates.items()},
        batch_tokens=chosen,
        seconds=sum(one.seconds for one in tries),
    )


def scaled(train: TrainSettings, factor: float) -> TrainSettings:
    """The recipe's training with every base rate multiplied."""
    rates = resolved_rates(train.optimizer)
    changed = {f"{role}_rate": rates[role] * factor for role in ROLES}
    return train.model_copy(update={"optimizer": train.optimizer.model_copy(update=changed)})


def best_factor(score: Callable[[float], float], start: float) -> float:
    """The factor of the lowest score: three points a doubling apart, on towards a falling edge, then the vertex of a parabola."""
    exponent = round(math.log2(start))
    points = {e: score(2.0**e) for e in (exponent - 1, exponent, exponent + 1)}
    while True:
        best = min(points, key=lambda e: points[e])
        edges = {min(points): -1, max(points): 1}
        if best not in edges or abs(best) >= EDGE:
            break
        points[best + edges[best]] = score(2.0 ** (best + edges[best]))
    return float(2.0 ** vertex(points, best))


def vertex(points: dict[int, float], best: int) -> float:
    """Where the parabola through the best point and its neighbours is lowest, at most half a doubling away; the point itself at an edge."""
    if best - 1 not in points or best + 1 not in points:
        return float(best)
    left, middle, right = points[best - 1], points[best], points[best + 1]
    bend = left - 2 * middle + right
    return best + (float(np.clip(0.5 * (left - right) / bend, -0.5, 0.5)) if bend > 0 else 0.0)


def carry(
    small: int, small_factor: float, large: int, large_factor: float, target: int
) -> tuple[float, float]:
    """(slope, factor at `target`). Without a second width, or where both optima agree, the rate does not depend on width."""
    apart = math.log2(large_factor / small_factor)
    if large <= small or abs(apart) <= AGREES:
        return 0.0, math.sqrt(small_factor * large_factor)
    slope = apart / math.log2(large / small)
    return slope, large_factor * 2.0 ** (slope * math.log2(target / large))


def _batch(score: Callable[[int, float], float], batch: int, seq_len: int, factor: float) -> int:
    """Half, the same or twice the batch at equal tokens, its rate scaled by the root of the ratio (Malladi et al. 2022); the larger on a tie."""
    start = 2.0 ** round(math.log2(factor))
    sizes = [size for size in (batch // 2, batch, 2 * batch) if size >= seq_len and size % seq_len == 0]
    scores = {size: score(size, start * math.sqrt(size / batch)) for size in sizes}
    least = min(scores.values())
    return max(size for size in sizes if scores[size] <= least * (1 + NOISE))


def estimated_seconds(trial: Trial) -> float:
    """What a sweep with the fewest steps would take here, by the rate of `trial` (the target itself): operations grow with the square of width."""
    shares = [(1 / 3) ** 2, (2 / 3) ** 2]
    return TRIES * MIN_STEPS * trial.step_s * sum(shares) / len(shares)
