"""Recipe section `finetune`: what follows pretraining, stage by stage."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from umsicht.recipe.base import Section
from umsicht.words import t

Layer = Literal["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
Method = Literal["sft", "dpo", "reward", "grpo"]
ONLY_FOR = {
    "beta": "dpo",
    "reference": "dpo",
    "kl": "grpo",
    "group": "grpo",
    "max_new_tokens": "grpo",
    "temperature": "grpo",
    "reward": "grpo",
    "reward_model": "grpo",
}
"""Settings that one method alone reads."""
DataFormat = Literal["auto", "messages", "sharegpt", "alpaca", "preferences", "problems"]


class LoraSettings(Section):
    """Low-rank adapters: train a small addition to each matrix and leave the base as it is."""

    r: int = Field(8, ge=1, description="Rank of the addition.")
    alpha: float = Field(16.0, gt=0, description="The addition is scaled by alpha / r.")
    dropout: float = Field(
        0.0, ge=0, lt=1, description="Dropout on what goes into the addition, in training only."
    )
    rank_stabilised: bool = Field(False, description="Scale by alpha / √r instead (rsLoRA).")
    targets: list[Layer] = Field(
        ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
        description="Layers that get an addition, by name.",
    )


class StageSettings(Section):
    """One stage of fine-tuning: data, method, length."""

    name: str | None = Field(
        None, description="Name of the stage; the method where left out.", pattern=r"^[a-z0-9-]{1,40}$"
    )
    method: Method = Field(
        "sft",
        description="sft: imitate answers. dpo: prefer one answer to another. reward: a model that judges answers, for a later "
        "grpo stage. grpo: earn a reward.",
    )
    data: list[str] = Field(
        min_length=1, description="Files (.jsonl, .json, also .gz), relative to the recipe."
    )
    format: DataFormat = Field("auto", description="Format of the rows; auto looks at the keys of each.")
    lora: LoraSettings | None = Field(None, description="Train adapters instead of all weights.")
    epochs: float = Field(
        3.0, gt=0, description="Passes over the data at most; early stopping may end sooner."
    )
    steps: int | None = Field(None, gt=0, description="Optimizer steps; replaces epochs where given.")
    batch_rows: int = Field(
        8, gt=0, description="Rows of one step: packed rows (sft), pairs (dpo, reward), problems (grpo)."
    )
    rate: float | None = Field(
        None, gt=0, description="Learning rate. Left out: by method, ten times higher with adapters."
    )
    warmup_share: float = Field(
        0.05, ge=0, le=1, description="Share of the steps in linear warm-up; the rest decays to zero."
    )
    weight_decay: float = Field(0.0, ge=0, description="Decoupled weight decay of the matrices.")
    seed: int = Field(0, ge=0, lt=2**31, description="Seed of the split, of the order and of sampling.")
    validation_share: float = Field(
        0.1, gt=0, lt=1, description="Share of the rows held out, by hash of the row."
    )
    validations: int = Field(6, gt=0, description="Validations over the stage, evenly spread.")
    patience: int | None = Field(
        3, gt=0, description="Stop after so many validations without improvement; null never stops early."
    )
    max_dropped_share: float = Field(
        0.05, ge=0, le=1, description="Refuse the data where more rows than this cannot be used."
    )
    beta: float = Field(0.1, gt=0, description="dpo: how strongly the policy is held to the reference.")
    reference: Literal["live", "precomputed"] = Field(
        "live",
        description="dpo: ask the reference at each step, or once for every pair before the first step.",
    )
    kl: float = Field(0.02, ge=0, description="grpo: weight of the divergence from the reference.")
    group: int = Field(8, ge=2, description="grpo: answers drawn for each problem.")
    max_new_tokens: int = Field(32, gt=0, description="grpo: longest answer.")
    temperature: float = Field(1.0, gt=0, description="grpo: temperature of the drawn answers.")
    reward: Literal["number", "exact", "contains", "model"] = Field(
        "number",
        description="grpo: last number equals the answer's; answer equals; answer occurs; a reward model judges.",
    )
    reward_model: str | None = Field(
        None,
        description="grpo with reward: model: name of an earlier stage of method reward, or of a run beside the base.",
    )

    @property
    def title(self) -> str:
        """The stage's name, or its method."""
        return self.name or self.method

    @model_validator(mode="after")
    def _every_setting_is_read(self) -> Self:
        """A setting of another method would change nothing, and its author would not know. Records hold every setting, so a default is none."""
        fields = type(self).model_fields
        for name, method in ONLY_FOR.items():
            if method != self.method and getattr(self, name) != fields[name].default:
                raise ValueError(t("recipe.rule.other_method", name=name, of=method, method=self.method))
        return self

    @model_validator(mode="after")
    def _judge_is_named(self) -> Self:
        if self.method == "grpo" and (self.reward == "model") != (self.reward_model is not None):
            raise ValueError(t("recipe.rule.reward"))
        return self


class FinetuneSettings(Section):
    """Stages after pretraining, in order; each starts from the one before, the first from the base.

    A stage of method reward makes a judge: the stage after it starts from where the judge started.
    """

    stages: list[StageSettings] = Field([], description="The stages. None: no fine-tuning.")
    forgetting_limit: float = Field(
        0.1, gt=0, description="Relative rise of bits per byte of a slice that counts as forgotten."
    )

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        titles = [stage.title for stage in self.stages]
        if len(set(titles)) != len(titles):
            raise ValueError(t("recipe.rule.stage_twice"))
        return self
