"""The plan stage: a measured rate, what the recipe wants, and what follows for time, memory and money."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from umsicht.findings import Finding
from umsicht.model import ModelConfig
from umsicht.plan import context
from umsicht.plan.budget import TOKENS_PER_PARAMETER, Workload, bill, check, effective_tokens, money_of
from umsicht.plan.flops import model_cost
from umsicht.plan.measure import laws, loss_law
from umsicht.plan.memory import predict, with_trial
from umsicht.plan.sweep import estimated_seconds
from umsicht.plan.trial import Bench, Trial, settled_trial
from umsicht.recipe.plan import PlanSettings
from umsicht.recipe.tokens import TokensSettings
from umsicht.recipe.train import TrainSettings
from umsicht.record import QUIET, Artifact, Progress, Store
from umsicht.record.environment import hardware
from umsicht.record.ids import content_id
from umsicht.tokens import PackedSource, TokenData
from umsicht.tokens.mix import MixShare, realised
from umsicht.train.budget import growth_of
from umsicht.train.checkpoints import SETTLED_STEPS
from umsicht.words import t

STAGE_VERSION = 2
KIND = "plan"
TRIAL_SLICE_BYTES = 2_000


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
    measurement: Artifact | None = None


def build(settings: PlanSettings, inputs: PlanInputs, *, progress: Progress = QUIET) -> Artifact:
    """Measure some steps of the real model here, and add up. Raises UserError where data and recipe do not fit together."""

    def make(folder: Path) -> dict[str, Any]:
        data = TokenData.open(inputs.tokens.path)
        bench = Bench(data, inputs.mix, inputs.train, inputs.seed)
        progress.stage(t("plan.measuring"))
        trial = settled_trial(bench, inputs.config, slice_bytes=TRIAL_SLICE_BYTES)
        progress.close()
        return assemble(settings, inputs, data, trial)

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
        inputs={
            "tokens": inputs.tokens.id,
            "hardware": content_id(hardware()),
            **({"measurement": inputs.measurement.id} if inputs.measurement else {}),
        },
        make=make,
    )


def assemble(settings: PlanSettings, inputs: PlanInputs, data: TokenData, trial: Trial) -> dict[str, Any]:
    """The plan as plain JSON, from a trial of the model itself and, where there is one, the family's measurement."""
    steps = inputs.steps or steps_of(inputs.train, trial, data.train.n_tokens)
    work = workload(inputs.train, trial, steps)
    seen = round(batches_of(inputs.train, steps) * trial.tokens_per_step)
    cost = model_cost(inputs.config)
    precision = "bfloat16" if inputs.train.precision == "bfloat16" else "float32"
    counted = predict(inputs.config, inputs.train, trial.micro_batch, precision=precision)
    memory = with_trial(counted, trial.peak_bytes)
    lengths = context.analyse(
        data.train, inputs.config, _lengths_to_try(inputs.config.seq_len), at_most=3_000
    )
    trials = (
        [Trial.from_dict(plain) for plain in inputs.measurement.report["trials"]]
        if inputs.measurement
        else []
    )
    shares = shares_of(inputs, data, steps)
    loss = loss_law(trials)
    found = [
        *check(
            work,
            settings,
            tokens_seen=seen,
            usable_tokens=data.train.n_tokens,
            parameters=cost.body_parameters,
            largest_fit=lambda seconds: largest_fit(inputs, trial, seconds),
        ),
        *context.findings(lengths, inputs.config, inputs.mix.packing),
        *over_epochs(shares, inputs.mix.mix.epochs_warning),
    ]
    return {
        "model": cost.to_dict(),
        "trial": trial.to_dict(),
        "steps": steps,
        "tokens": seen,
        "usable_tokens": data.train.n_tokens,
        "worth_tokens": effective_tokens(data.train.n_tokens, seen),
        "epochs": seen / data.train.n_tokens,
        "tokens_per_s": trial.tokens_per_step / trial.step_s,
        "rates": inputs.measurement.report["rates"] if inputs.measurement else [],
        "memory": memory.to_dict(),
        "context": {
            "recommended_seq_len": lengths.recommended_seq_len,
            "recommended_packing": lengths.recommended_packing,
            "quantiles": lengths.quantiles,
        },
        "mix": {name: share.to_dict() for name, share in shares.items()},
        "predicted": {
            "training_s": work.training_s,
            "training_money": money_of(work.training_s, settings),
            "peak_bytes": memory.peak,
            "bpb": {
                name: law.predict(cost.body_parameters, seen).to_dict() for name, law in laws(trials).items()
            },
            "loss": loss.predict(cost.body_parameters, seen).to_dict() if loss else None,
        },
        "cost": bill(work, settings).to_dict(),
        "parts": {
            "evaluation_s": work.evaluations * work.evaluation_s,
            "checkpoints_s": work.checkpoints * work.checkpoint_s,
            "restart_s": work.restart_s,
            "steps_s": work.steps * work.step_s,
            "sweep_s": estimated_seconds(trial),
        },
        "findings": [finding.to_dict() for finding in found],
    }


def largest_fit(inputs: PlanInputs, trial: Trial, seconds: float) -> tuple[str, int]:
    """The largest width (a multiple of 32, other proportions kept) whose training on 20 tokens a parameter ends in `seconds`.

    Time is taken in proportion to operations, from the rate of the trial.
    """
    rate = trial.step_s / (trial.flops_training * trial.tokens_per_step)
    best: tuple[str, int] = ("–", 0)
    for width in range(32, inputs.config.d_model + 1, 32):
        ratio = width / inputs.config.d_model
        narrow = replace(
            inputs.config,
            d_model=width,
            n_layers=max(1, round(inputs.config.n_layers * ratio)),
            n_heads=1,
            n_kv_heads=1,
            head_dim=width - width % 2,
            d_ff=max(1, round(inputs.config.d_ff * ratio)),
        )
        cost = model_cost(narrow)
        tokens = TOKENS_PER_PARAMETER * cost.body_parameters
        if tokens * cost.flops_training * rate <= seconds:
            best = (f"d_model {width}, {tokens:,.0f} tokens", cost.body_parameters)
    return best


def shares_of(inputs: PlanInputs, data: TokenData, steps: int) -> dict[str, MixShare]:
    """The mix as it will be read; empty where none is declared."""
    mix = inputs.mix.mix
    if not mix.shares and not mix.phases:
        return {}
    source = PackedSource(
        data.train,
        seq_len=inputs.config.seq_len,
        batch_tokens=inputs.train.global_batch_tokens,
        eos_id=data.eos_id,
        seed=inputs.mix.seed,
        packing=inputs.mix.packing,
        mix=mix,
        total_steps=steps,
        growth=growth_of(inputs.train.phases, steps),
    )
    return realised(source, steps)


def over_epochs(shares: dict[str, MixShare], limit: float) -> list[Finding]:
    """Parts of the mix that are read more often than the recipe's limit."""
    return [
        Finding(
            "BUDGET/source-repeated",
            "warn",
            "plan",
            name,
            {"source": name, "epochs": round(share.epochs, 2), "limit": limit},
        )
        for name, share in shares.items()
        if share.epochs > limit
    ]


def _lengths_to_try(seq_len: int) -> tuple[int, ...]:
    return tuple(sorted({max(32, seq_len // 4), max(32, seq_len // 2), seq_len, 2 * seq_len, 4 * seq_len}))


def steps_of(train: TrainSettings, trial: Trial, usable_tokens: int) -> int:
    """Steps that the recipe's budget means on this machine."""
    budget = train.budget
    if budget.steps is not None:
        return budget.steps
    if budget.minutes is not None:
        return max(1, int(budget.minutes * 60 / trial.step_s))
    tokens = budget.tokens if budget.tokens is not None else (budget.epochs or 0.0) * usable_tokens
    batches = tokens / trial.tokens_per_step
    growth = growth_of(train.phases, 1)
    return growth.steps_for(batches) if growth else max(1, round(batches))


def batches_of(train: TrainSettings, steps: int) -> float:
    """Whole batches that `steps` steps read: fewer than steps where the batch grows."""
    growth = growth_of(train.phases, steps)
    return growth.parts_before(steps) / growth.first if growth else steps


def workload(train: TrainSettings, trial: Trial, steps: int) -> Workload:
    """The whole training in measured parts."""
    every = train.validation.every_steps or max(1, math.ceil(steps / train.validation.count))
    between = _steps_between_checkpoints(train, trial, steps)
    return Workload(
        steps=steps,
        # A step on a part of a batch takes that part of the time, near enough.
        step_s=trial.step_s * batches_of(train, steps) / steps,
        evaluations=math.ceil(steps / every) + 1,
        evaluation_s=trial.evaluation_s,
        checkpoints=math.ceil(steps / between),
        checkpoint_s=trial.checkpoint_s,
        checkpoint_bytes=trial.checkpoint_bytes,
        kept_checkpoints=train.checkpoint.keep_last
        + len(train.checkpoint.keep_best)
        + 2 * (between < SETTLED_STEPS),
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
