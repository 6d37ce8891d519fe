"""The plan stage: a measured rate, what the recipe wants, and what follows for time, memory and money."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from umsicht.model import ModelConfig
from umsicht.plan.budget import Workload, bill, check
from umsicht.plan.flops import model_cost
from umsicht.plan.trial import Bench, Trial, run_trial
from umsicht.recipe.plan import PlanSettings
from umsicht.recipe.tokens import TokensSettings
from umsicht.recipe.train import TrainSettings
from umsicht.record import QUIET, Artifact, Progress, Store
from umsicht.record.environment import hardware
from umsicht.record.ids import content_id
from umsicht.tokens import TokenData
from umsicht.words import t

STAGE_VERSION = 1
KIND = "plan"
TRIAL_STEPS = 8


@dataclass(frozen=True)
class PlanInputs:
    """What the stage reads: the tokens, the sizes of the model, and the sections of the recipe that cost time."""

    store: Store
    tokens: Artifact
    config: ModelConfig
    train: TrainSettings
    mix: TokensSettings
    steps: int | None = None
    seed: int = 0
    name: str = "plan"


def build(settings: PlanSettings, inputs: PlanInputs, *, progress: Progress = QUIET) -> Artifact:
    """Measure a few steps of the real model here, and add up. Raises UserError where data and recipe do not fit together."""

    def make(folder: Path) -> dict[str, Any]:
        data = TokenData.open(inputs.tokens.path)
        progress.stage(t("plan.measuring"))
        trial = run_trial(Bench(data, inputs.mix, inputs.train, inputs.seed), inputs.config, TRIAL_STEPS)
        progress.close()
        steps = inputs.steps or steps_of(inputs.train, trial, data.train.n_tokens)
        work = workload(inputs.train, trial, steps)
        seen = steps * trial.tokens_per_step
        cost = model_cost(inputs.config)
        findings = check(
            work, settings, tokens_seen=seen, usable_tokens=data.train.n_tokens, parameters=cost.parameters
        )
        return {
            "model": cost.to_dict(),
            "trial": trial.to_dict(),
            "steps": steps,
            "tokens": seen,
            "usable_tokens": data.train.n_tokens,
            "epochs": seen / data.train.n_tokens,
            "tokens_per_s": trial.tokens_per_step / trial.step_s,
            "predicted": {"training_s": work.training_s, "peak_bytes": trial.peak_bytes},
            "cost": bill(work, settings).to_dict(),
            "findings": [finding.to_dict() for finding in findings],
        }

    return inputs.store.build(
        KIND,
        inputs.name,
        stage_version=STAGE_VERSION,
        settings={
            "plan": settings.plain(),
            "model": inputs.config.to_dict(),
            "train": inputs.train.plain(),
            "tokens": inputs.mix.plain(),
            "steps": inputs.steps,
            "seed": inputs.seed,
        },
        inputs={"tokens": inputs.tokens.id, "hardware": content_id(hardware())},
        make=make,
    )


def steps_of(train: TrainSettings, trial: Trial, usable_tokens: int) -> int:
    """Steps that the recipe's budget means on this machine."""
    budget = train.budget
    if budget.steps is not None:
        return budget.steps
    if budget.minutes is not None:
        return max(1, int(budget.minutes * 60 / trial.step_s))
    tokens = budget.tokens if budget.tokens is not None else (budget.epochs or 0.0) * usable_tokens
    return max(1, round(tokens / trial.tokens_per_step))


def workload(train: TrainSettings, trial: Trial, steps: int) -> Workload:
    """The whole training in measured parts."""
    every = train.validation.every_steps or max(1, math.ceil(steps / train.validation.count))
    between = _steps_between_checkpoints(train, trial, steps)
    return Workload(
        steps=steps,
        step_s=trial.step_s,
        evaluations=math.ceil(steps / every) + 1,
        evaluation_s=trial.evaluation_s,
        checkpoints=math.ceil(steps / between),
        checkpoint_s=trial.checkpoint_s,
        checkpoint_bytes=trial.checkpoint_bytes,
        kept_checkpoints=train.checkpoint.keep_last + len(train.checkpoint.keep_best),
        steps_between_checkpoints=between,
    )


def _steps_between_checkpoints(train: TrainSettings, trial: Trial, steps: int) -> int:
    wanted = train.checkpoint
    candidates = [steps]
    if wanted.every_steps is not None:
        candidates.append(wanted.every_steps)
    if wanted.every_tokens is not None:
        candidates.append(max(1, wanted.every_tokens // trial.tokens_per_step))
    if wanted.every_minutes is not None:
        candidates.append(max(1, int(60 * wanted.every_minutes / trial.step_s)))
    return min(candidates)
