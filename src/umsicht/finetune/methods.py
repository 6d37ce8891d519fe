"""The methods side by side: what each trains on, with which loss, and how it is validated."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import torch

from umsicht.model import Transformer
from umsicht.recipe.finetune import StageSettings
from umsicht.score import loss_sum
from umsicht.tokenizer import Tokenizer
from umsicht.tokens.batch import BatchSource
from umsicht.train.hooks import Hook
from umsicht.train.objective import LanguageModelling, Objective

from . import grpo, preference, supervised
from . import reward_model as reward_models
from .hooks import Figures, HeldOut
from .loading import Refused
from .reference import Reference, ReferenceGuard
from .reward import REWARDS, Checked, Judge
from .rows import Conversation, Preference, Problem, Row

KIND: dict[str, type[Row]] = {"sft": Conversation, "dpo": Preference, "reward": Preference, "grpo": Problem}
"""What the rows of each method must be."""

METRIC: dict[str, tuple[str, Literal["down", "up"]]] = {
    "sft": ("val/sft/loss", "down"),
    "dpo": ("val/dpo/loss", "down"),
    "reward": ("val/reward/loss", "down"),
    "grpo": ("val/grpo/reward", "up"),
}
"""The held-out figure that decides which checkpoint is best."""

RATE = {"sft": 3e-4, "dpo": 3e-5, "reward": 1e-4, "grpo": 1e-4}
ADAPTER_FACTOR = 10.0
"""Adapters start at zero and are few: ten times the rate of all weights (Schulman et al. 2025, "LoRA without regret")."""


@dataclass
class Prepared:
    """A stage ready to train, except for the model: data, counts, and what could not be used."""

    source: BatchSource
    refused: list[Refused]
    table: dict[str, Any]
    lines: list[tuple[str, str]] = field(default_factory=list)
    attach: Callable[[Transformer], tuple[Objective, list[Hook]]] = field(
        default=lambda model: (LanguageModelling(), [])
    )


def rate_of(settings: StageSettings) -> float:
    """The recipe's rate, or the method's."""
    return settings.rate or RATE[settings.method] * (ADAPTER_FACTOR if settings.lora else 1.0)


def steps_of(settings: StageSettings, source: BatchSource) -> int:
    """Optimizer steps of the stage."""
    return settings.steps or max(1, math.ceil(settings.epochs / source.epoch(1)))


def prepare(
    settings: StageSettings,
    training: Sequence[Row],
    held_out: Sequence[Row],
    tokenizer: Tokenizer,
    seq_len: int,
    reward_model: Transformer | None = None,
) -> Prepared:
    """Render the rows and build the batch source of the stage's method. `reward_model` judges answers where `reward: model` says so."""
    if settings.method == "grpo":
        if reward_model is not None:
            judge: Judge = reward_models.Judged(reward_model, tokenizer.pad_id)
        else:
            judge = Checked(REWARDS[settings.reward], tokenizer)
        return _grpo(settings, training, held_out, tokenizer, seq_len, judge)
    methods = {"sft": _sft, "dpo": _dpo, "reward": _reward}
    return methods[settings.method](settings, training, held_out, tokenizer, seq_len)


def _sft(
    settings: StageSettings, training: Sequence[Row], held: Sequence[Row], tokenizer: Tokenizer, seq_len: int
) -> Prepared:
    examples, refused, cut = supervised.rendered(cast(Sequence[Conversation], training), tokenizer, seq_len)
    others, more, _ = supervised.rendered(cast(Sequence[Conversation], held), tokenizer, seq_len)
    if not examples or not others:
        return nothing_prepared(refused + more)
    packed = supervised.pack(examples, seq_len)
    options = {"seq_len": seq_len, "pad_id": tokenizer.pad_id}
    source = supervised.SupervisedSource(
        packed, batch_rows=min(settings.batch_rows, len(packed)), seed=settings.seed, **options
    )
    table = supervised.table(examples, packed, seq_len, cut)
    validation = supervised.pack(others, seq_len)

    def measure(model: Any, device: torch.device) -> dict[str, float]:
        nats, count = 0.0, 0
        for start in range(0, len(validation), settings.batch_rows):
            rows = validation[start : start + settings.batch_rows]
            batch = supervised.collate(rows, seq_len, tokenizer.pad_id, range(len(rows))).to(device)
            hidden = model.hidden(batch.inputs, document_ids=batch.document_ids)
            loss = loss_sum(hidden, model.head_weight, batch.targets, softcap=model.config.softcap)
            nats, count = nats + float(loss.nats), count + loss.count
        return {"loss": nats / count}

    def attach(model: Transformer) -> tuple[Objective, list[Hook]]:
        return LanguageModelling(document_mask=True), [HeldOut("val/sft", measure, settings.validations)]

    return Prepared(source, refused + more, table.to_dict(), table.lines(), attach)


def _dpo(
    settings: StageSettings, training: Sequence[Row], held: Sequence[Row], tokenizer: Tokenizer, seq_len: int
) -> Prepared:
    pairs, refused = preference.rendered_pairs(cast(Sequence[Preference], training), tokenizer, seq_len)
    others, more = preference.rendered_pairs(cast(Sequence[Preference], held), tokenizer, seq_len)
    if not pairs or not others:
        return nothing_prepared(refused + more)
    size = min(settings.batch_rows, len(pairs))
    source, validation = (
        preference.PairSource(p, batch_pairs=size, seed=settings.seed, pad_id=tokenizer.pad_id)
        for p in (pairs, others)
    )

    def attach(model: Transformer) -> tuple[Objective, list[Hook]]:
        reference = Reference(model)
        device = model.embed.weight.device
        answers: Any = reference
        if settings.reference == "precomputed":
            answers = preference.precompute(reference, source, device)
        objective = preference.PreferenceObjective(answers, settings.beta)
        judge = preference.PreferenceObjective(reference, settings.beta)

        def measure(policy: Any, where: torch.device) -> dict[str, float]:
            found = preference.mean_loss(judge, policy, validation, where)
            return {name.removeprefix("dpo/"): value for name, value in found.items()}

        hooks = [
            Figures(objective.figures),
            HeldOut("val/dpo", measure, settings.validations),
            ReferenceGuard(reference, model, lambda: source.collated([0])),
        ]
        return objective, hooks

    table = _pair_table(pairs)
    return Prepared(source, refused + more, table, _lines(table), attach)


def _reward(
    settings: StageSettings, training: Sequence[Row], held: Sequence[Row], tokenizer: Tokenizer, seq_len: int
) -> Prepared:
    pad = tokenizer.pad_id
    # one place less: the padding token that is scored stands behind the answer
    pairs, refused = preference.rendered_pairs(cast(Sequence[Preference], training), tokenizer, seq_len - 1)
    others, more = preference.rendered_pairs(cast(Sequence[Preference], held), tokenizer, seq_len - 1)
    if not pairs or not others:
        return nothing_prepared(refused + more)
    size = min(settings.batch_rows, len(pairs))
    source, validation = (
        preference.PairSource(
            reward_models.asked_pairs(p, pad), batch_pairs=size, seed=settings.seed, pad_id=pad
        )
        for p in (pairs, others)
    )

    def attach(model: Transformer) -> tuple[Objective, list[Hook]]:
        objective, judge = reward_models.RewardObjective(), reward_models.RewardObjective()

        def measure(policy: Any, where: torch.device) -> dict[str, float]:
            found = preference.mean_loss(judge, policy, validation, where)
            return {name.removeprefix("reward/"): value for name, value in found.items()}

        return objective, [
            Figures(objective.figures),
            HeldOut("val/reward", measure, settings.validations),
        ]

    table = _pair_table(pairs)
    return Prepared(source, refused + more, table, _lines(table), attach)


def _pair_table(pairs: Sequence[preference.Pair]) -> dict[str, int]:
    active = sorted(example.active for p in pairs for example in (p.chosen, p.rejected))
    return {
        "examples": len(pairs),
        "active": sum(active),
        "smallest": active[0],
        "median": active[len(active) // 2],
        "largest": active[-1],
    }


def _grpo(
    settings: StageSettings,
    training: Sequence[Row],
    held: Sequence[Row],
    tokenizer: Tokenizer,
    seq_len: int,
    judge: Judge,
) -> Prepared:
    room = max(1, seq_len - settings.max_new_tokens)
    is_checked = isinstance(judge, Checked)
    problems, refused = grpo.posed(cast(Sequence[Problem], training), tokenizer, room, is_checked=is_checked)
    others, more = grpo.posed(cast(Sequence[Problem], held), tokenizer, room, is_checked=is_checked)
    if not problems or not others:
        return nothing_prepared(refused + more)
    source = grpo.ProblemSource(
        problems,
        batch_rows=min(settings.batch_rows, len(problems)),
        seed=settings.seed,
        pad_id=tokenizer.pad_id,
        group=settings.group,
        room=settings.max_new_tokens,
    )
    how = grpo.GrpoSettings(settings.kl, settings.max_new_tokens, settings.temperature, settings.seed)

    def attach(model: Transformer) -> tuple[Objective, list[Hook]]:
        reference = Reference(model)
        objective = grpo.GrpoObjective(source, reference, judge, tokenizer, how)

        def measure(policy: Any, _: torch.device) -> dict[str, float]:
            return objective.held_out(policy, others)

        hooks = [
            Figures(objective.figures),
            HeldOut("val/grpo", measure, settings.validations),
            ReferenceGuard(reference, model, lambda: grpo.asked(problems[:4], tokenizer.pad_id)),
        ]
        return objective, hooks

    lengths = sorted(len(p.prompt) for p in problems)
    table = {
        "examples": len(problems),
        "smallest": lengths[0],
        "median": lengths[len(lengths) // 2],
        "largest": lengths[-1],
    }
    return Prepared(source, refused + more, table, _lines(table), attach)


def _lines(table: dict[str, int]) -> list[tuple[str, str]]:
    from umsicht.words import t

    spread = f"{table['smallest']} / {table['median']} / {table['largest']}"
    lines = [(t("finetune.table.examples"), f"{table['examples']:,}")]
    if "active" in table:
        lines.append((t("finetune.table.active"), f"{table['active']:,}"))
    return [*lines, (t("finetune.table.spread"), spread)]


def nothing_prepared(refused: list[Refused]) -> Prepared:
    """Of rows that leave nothing to train on."""
    source = supervised.SupervisedSource([], seq_len=1, batch_rows=1, seed=0, pad_id=0)
    return Prepared(source, refused, {"examples": 0})
