"""Recipe section `model`: the shape of the network."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from umsicht.recipe.base import Section


class DropoutSettings(Section):
    """Probability of dropping a value, in training only."""

    embedding: float = Field(0.0, ge=0.0, lt=1.0, description="Dropout on the token embeddings.")
    attention: float = Field(0.0, ge=0.0, lt=1.0, description="Dropout on attention weights.")
    residual: float = Field(0.0, ge=0.0, lt=1.0, description="Dropout on what each block adds to the stream.")


class ModelSettings(Section):
    """Shape of the model. `d_model` is the dial; everything left out is derived from it, printed and stored."""

    family: Literal["qwen3", "nanochat", "fast"] = Field(
        "qwen3",
        description="qwen3 exports to Hugging Face and GGUF; nanochat to Hugging Face; "
        "fast learns most per second and exports nowhere.",
    )
    d_model: int = Field(256, ge=16, description="Width of the residual stream: the one dial of size.")
    seq_len: int = Field(
        256, ge=8, description="Context length trained with, in tokens; training rows are this long."
    )
    n_layers: int | None = Field(
        None, ge=1, description="Number of blocks. Left out: one for each 64 of width."
    )
    n_heads: int | None = Field(None, ge=1, description="Query heads. Left out: d_model / head_dim.")
    n_kv_heads: int | None = Field(
        None, ge=1, description="Key and value heads. Left out: as n_heads, half of it from 8 heads on."
    )
    head_dim: int | None = Field(
        None, ge=2, description="Width of a head. Left out: 128 where at least two fit, else smaller."
    )
    d_ff: int | None = Field(
        None,
        ge=1,
        description="Feed-forward width. Left out: 8/3·d_model (SwiGLU) or 4·d_model (squared ReLU).",
    )
    tied: bool = Field(
        False, description="One matrix for embedding and head; saves weights where the vocabulary is large."
    )
    rope_theta: float | None = Field(
        None,
        gt=0,
        description="Base of the rotary positions. Left out: 10,000, or 500,000 beyond 4,096 tokens.",
    )
    softcap: float | None = Field(
        None, gt=0, description="Bound of the logits. Left out: none for qwen3, 15 for nanochat and fast."
    )
    dropout: DropoutSettings = Field(DropoutSettings(), description="Dropout probabilities.")
