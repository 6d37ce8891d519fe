"""The measurement: a ladder of small trainings of the recipe's family on this machine. What a score and an hour will be is drawn from it.

It is an artifact of its own, kept for each machine and recipe family (everything but width and length), so that a plan is made in seconds from it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from umsicht.model import ModelConfig, derive
from umsicht.plan import rates
from umsicht.plan.flops import model_cost
from umsicht.plan.scaling import Point, ScalingLaw
from umsicht.plan.trial import Bench, Trial, run_trial
from umsicht.recipe.model import ModelSettings
from umsicht.recipe.tokens import TokensSettings
from umsicht.recipe.train import TrainSettings
from umsicht.record import QUIET, Artifact, Progress, Store
from umsicht.record.environment import hardware
from umsicht.record.ids import content_id
from umsicht.tokens import TokenData
from umsicht.words import t

STAGE_VERSION = 2
KIND = "measurement"
MIN_STEPS = 40
# (index of width, factor of length): three lengths of the smallest width show the slope in tokens, three widths that in parameters.
LADDER = ((0, 1), (0, 2), (1, 1), (0, 4), (1, 2), (2, 1), (2, 2))


@dataclass(frozen=True)
class MeasureInputs:
    """What a measurement reads. `d_model` is the width that the plan is for: the ladder stays below it."""

    store: Store
    tokens: Artifact
    model: ModelSettings
    train: TrainSettings
    mix: TokensSettings
    seed: int = 0
    name: str = "measurement"


def measure(inputs: MeasureInputs, seconds: float, *, progress: Progress = QUIET) -> Artifact:
    """Train the ladder within about `seconds`; the finished measurement where this machine and family have one."""

    def make(folder: Path) -> dict[str, Any]:
        data = TokenData.open(inputs.tokens.path)
        bench = Bench(data, inputs.mix, inputs.train, inputs.seed)
        progress.stage(t("plan.measuring"), total=seconds, unit="s")
        trials = climb(bench, configs(inputs.model, data.n_tokens), 0.85 * seconds, progress)
        target = derive(inputs.model, data.n_tokens)
        ways = rates.scan(bench, target, 0.15 * seconds, compiled=seconds >= rates.COMPILE_FROM_S)
        progress.close()
        return {
            "trials": [trial.to_dict() for trial in trials],
            "rates": [rate.to_dict() for rate in ways],
        }

    return inputs.store.build(
        KIND,
        inputs.name,
        stage_version=STAGE_VERSION,
        settings=family(inputs),
        inputs={"tokens": inputs.tokens.id, "hardware": content_id(hardware())},
        make=make,
    )


def find(inputs: MeasureInputs) -> Artifact | None:
    """The measurement of this machine and family, if it was made."""
    identity = inputs.store.identity(
        KIND,
        stage_version=STAGE_VERSION,
        settings=family(inputs),
        inputs={"tokens": inputs.tokens.id, "hardware": content_id(hardware())},
    )
    return inputs.store.find(KIND, identity)


def family(inputs: MeasureInputs) -> dict[str, Any]:
    """The settings that all trainings of a family share; the ladder's own widths follow from the recipe's."""
    train = {
        key: value
        for key, value in inputs.train.plain().items()
        if key not in ("budget", "checkpoint", "early_stopping", "writers", "log_every")
    }
    return {"model": inputs.model.plain(), "train": train, "tokens": inputs.mix.plain(), "seed": inputs.seed}


def configs(model: ModelSettings, n_tokens: int) -> list[ModelConfig]:
    """Three models of the family below the recipe's width: about a third, a half and two thirds of it."""
    made: list[ModelConfig] = []
    for share in (1 / 3, 1 / 2, 2 / 3):
        width = max(32, 32 * round(model.d_model * share / 32))
        narrow = model.model_copy(
            update={"d_model": width, "n_heads": None, "n_kv_heads": None, "d_ff": None, "head_dim": None}
        )
        config = derive(narrow, n_tokens)
        if config.d_model not in [one.d_model for one in made]:
            made.append(config)
    return made


def climb(
    bench: Bench, models: Sequence[ModelConfig], seconds: float, progress: Progress = QUIET
) -> list[Trial]:
    """Run as much of the ladder as `seconds` allow, at least three trainings; the first trial tells how long the others take."""
    begin = time.monotonic()
    rungs = [(min(index, len(models) - 1), factor) for index, factor in LADDER]
    rungs = list(dict.fromkeys(rungs))
    probe = run_trial(bench, models[0], 4)
    rate = probe.step_s / probe.flops_training
    fixed = probe.wall_s - 4 * probe.step_s
    steps = MIN_STEPS
    while _seconds(rungs, models, 2 * steps, rate, fixed) < seconds - (time.monotonic() - begin):
        steps *= 2
    trials: list[Trial] = []
    for index, factor in rungs:
        expected = models_cost(models[index]) * rate * steps * factor + fixed
        if len(trials) >= 3 and time.monotonic() - begin + expected > 1.2 * seconds:
            continue
        started = time.monotonic()
        trials.append(run_trial(bench, models[index], steps * factor))
        progress.advance(time.monotonic() - started, f"d_model {models[index].d_model}")
    return trials


def models_cost(config: ModelConfig) -> int:
    """Operations of a training token."""
    return model_cost(config).flops_training


def _seconds(
    rungs: Sequence[tuple[int, int]], models: Sequence[ModelConfig], steps: int, rate: float, fixed: float
) -> float:
    return sum(models_cost(models[index]) * rate * steps * factor + fixed for index, factor in rungs)


def laws(trials: Sequence[Trial]) -> dict[str, ScalingLaw]:
    """A law for each slice that every trial scored, and for `all`."""
    names = set.intersection(*(set(trial.bpb) for trial in trials)) if trials else set()
    return {
        name: ScalingLaw([Point(trial.body_parameters, trial.tokens, trial.bpb[name]) for trial in trials])
        for name in sorted(names)
        if len(trials) >= 3
    }


def loss_law(trials: Sequence[Trial]) -> ScalingLaw | None:
    """The law of the loss over all validation text, nats a token; None for fewer than three trainings."""
    usable = [trial for trial in trials if math.isfinite(trial.loss)]
    if len(usable) < 3:
        return None
    return ScalingLaw([Point(trial.body_parameters, trial.tokens, trial.loss) for trial in usable])


def step_seconds(trials: Sequence[Trial], flops_training: float, *, cpu: bool = False) -> float:
    """Seconds of a step of a larger model: overhead and rate fitted to the trials by relative least squares, neither negative."""
    work = np.asarray([trial.flops_training * trial.tokens_per_step for trial in trials], dtype=float)
    taken = np.asarray([trial.cpu_step_s if cpu else trial.step_s for trial in trials], dtype=float)
    tokens = trials[0].tokens_per_step
    design = np.stack([1 / taken, work / taken], axis=1)
    solution, *_ = np.linalg.lstsq(design, np.ones(len(trials)), rcond=None)
    overhead, rate = (float(value) for value in solution)
    if overhead < 0 or rate <= 0:
        overhead, rate = 0.0, float((work / taken).sum() / ((work / taken) ** 2).sum())
    return overhead + rate * flops_training * tokens
