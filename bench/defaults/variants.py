"""One change each against the default recipe: what is built, what moves it, and what a step is given."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch

from umsicht.model import ModelConfig, Transformer, build, derive
from umsicht.model.build import OUTPUT_PROJECTIONS
from umsicht.recipe.model import ModelSettings

VOCAB, WIDTH, LAYERS, LENGTH, ROWS = 1024, 64, 4, 128, 8


@dataclass(frozen=True)
class Variant:
    """`name` for the table; `against` names the variant it is held against. `rates` multiplies every rate.

    `rows` gives the rows of a step from the share of the tokens that are read; `length` the length they are cut to.
    """

    name: str
    against: str = "default"
    model: dict[str, Any] = field(default_factory=dict)
    optimizer: dict[str, Any] = field(default_factory=dict)
    schedule: dict[str, Any] = field(default_factory=dict)
    z_loss: float = 0.0
    rates: float = 1.0
    rows: Callable[[float], int] = lambda done: ROWS
    length: Callable[[float], int] = lambda done: LENGTH
    configured: Callable[[ModelConfig], ModelConfig] = lambda config: config
    changed: Callable[[Transformer], None] = lambda model: None

    def build(self, seed: int) -> Transformer:
        """The model with its starting weights."""
        settings = ModelSettings.model_validate({"d_model": WIDTH, "n_layers": LAYERS, **self.model})
        model = build(self.configured(derive(settings, VOCAB, seq_len=LENGTH)), seed)
        self.changed(model)
        return model


def _as(kind: type[ModelConfig]) -> Callable[[ModelConfig], ModelConfig]:
    """The same sizes under another set of switches."""
    return lambda config: kind(**{f.name: getattr(config, f.name) for f in fields(ModelConfig)})


class _WithoutQueryNorm(ModelConfig):
    normalises_queries = False


class _WithoutValueEmbeddings(ModelConfig):
    def has_value_embedding(self, layer: int) -> bool:
        return False


class _SquaredRelu(ModelConfig):
    is_gated = False


class _Gated(ModelConfig):
    is_gated = True


def _without_scalars(model: Transformer) -> None:
    for block in model.layers:
        block.has_scalars = False
        for scalar in (block.residual_scale, block.first_scale):
            scalar.requires_grad_(False)


def _random_outputs(model: Transformer) -> None:
    """Output projections as GPT-2's: as other matrices, divided by √(2·layers)."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith(OUTPUT_PROJECTIONS):
                bound = math.sqrt(3.0 / weight.shape[1]) / math.sqrt(2 * LAYERS)
                weight.uniform_(-bound, bound, generator=generator)


def doubling(first: float, share: float) -> Callable[[float], int]:
    """Rows that double from `first` of the batch to the whole of it, in equal stages over the first `share` of the tokens."""
    stages = round(-math.log2(first))

    def rows(done: float) -> int:
        stage = stages if done >= share else int(done / share * stages)
        return max(1, round(ROWS * first * 2**stage))

    return rows


FAST: dict[str, Any] = {"family": "fast"}
# Equal weights in both kinds of feed-forward network: 3·192 = 2·288 (default of qwen3), 2·256 ≈ 3·171 (of fast).
VARIANTS = [
    Variant("default"),
    Variant("optimizer.kind: adamw", optimizer={"kind": "adamw"}),
    Variant("adamw, all rates × 2", optimizer={"kind": "adamw"}, rates=2.0),
    Variant("adamw, all rates × 0.5", optimizer={"kind": "adamw"}, rates=0.5),
    Variant("adamw, all rates × 4", optimizer={"kind": "adamw"}, rates=4.0),
    Variant("family: fast", model=FAST),
    Variant("fast without value embeddings", "family: fast", FAST, configured=_as(_WithoutValueEmbeddings)),
    Variant("fast without residual scalars", "family: fast", FAST, changed=_without_scalars),
    Variant("fast without soft cap", "family: fast", FAST, configured=lambda c: replace(c, softcap=None)),
    Variant("global_batch_tokens × 2", rows=lambda done: 2 * ROWS),
    Variant("batch × 2, doubling from 0.25 of it in the first 0.3", "global_batch_tokens × 2", rows=lambda done: 2 * doubling(0.25, 0.3)(done)),
    Variant("batch doubling from 0.25 in the first 0.3", rows=doubling(0.25, 0.3)),
    Variant("without normalised queries and keys", configured=_as(_WithoutQueryNorm)),
    Variant("output projections not zero at first", changed=_random_outputs),
    Variant("squared ReLU for SwiGLU", model={"d_ff": 288}, configured=_as(_SquaredRelu)),
    Variant("softcap: 15", model={"softcap": 15.0}),
    Variant("tied: true", model={"tied": True}),
    Variant("newton_schulz_steps: 2", optimizer={"newton_schulz_steps": 2}),
    Variant("newton_schulz_steps: 5", optimizer={"newton_schulz_steps": 5}),
    Variant("schedule.decay_share: 0.2", schedule={"decay_share": 0.2}),
    Variant("schedule.decay_share: 0.7", schedule={"decay_share": 0.7}),
    Variant("average_share: 0.1", optimizer={"average_share": 0.1}),
    Variant("schedule.shape: cosine", schedule={"shape": "cosine"}),
    Variant("embedding_rate: 0.1", optimizer={"embedding_rate": 0.1}),
    Variant("embedding_rate: 1.0", optimizer={"embedding_rate": 1.0}),
    Variant("global_batch_tokens × 0.5", rows=lambda done: ROWS // 2),
    Variant("matrix_rate: 0.01", optimizer={"matrix_rate": 0.01}),
    Variant("matrix_rate: 0.04", optimizer={"matrix_rate": 0.04}),
    Variant("average_share: 0.1, constant rate", optimizer={"average_share": 0.1}, schedule={"shape": "constant"}),
    Variant("short rows (a half) in the first 0.3", length=lambda done: LENGTH // 2 if done < 0.3 else LENGTH),
    Variant("fast with SwiGLU", "family: fast", {**FAST, "d_ff": 171}, configured=_as(_Gated)),
    Variant("head_rate: 0.003", optimizer={"head_rate": 0.003}),
    Variant("head_rate: 0.03", optimizer={"head_rate": 0.03}),
    Variant("weight_decay: 0", optimizer={"weight_decay": 0.0}),
    Variant("beta1: 0.9", optimizer={"beta1": 0.9}),
    Variant("schedule.decay: sqrt", schedule={"decay": "sqrt"}),
    Variant("schedule.warmup_share: 0", schedule={"warmup_share": 0.0}),
    Variant("schedule.warmup_share: 0.1", schedule={"warmup_share": 0.1}),
    Variant("z_loss: 0.0001", z_loss=1e-4),
    Variant("clip_norm: null", optimizer={"clip_norm": None}),
    Variant("momentum: 0.9", optimizer={"momentum": 0.9}),
]  # fmt: skip
