"""What a model is made of, as plain values that fit in a JSON file."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

Family = Literal["qwen3", "nanochat", "fast", "llama", "gpt2"]
FAMILIES: tuple[Family, ...] = ("qwen3", "nanochat", "fast", "llama", "gpt2")
"""The first three are trained from scratch; `llama` and `gpt2` only come in from elsewhere."""
CONFIG_VERSION = 1


@dataclass(frozen=True)
class LoraConfig:
    """Low-rank adapters (Hu et al. 2021) beside the matrices named in `targets`: W + scale · B·A, with A, B of rank `r`.

    The scale is alpha / r, or alpha / √r where `rank_stabilised` (rsLoRA, Kalajdzievski 2023).
    """

    r: int = 8
    alpha: float = 16.0
    dropout: float = 0.0
    rank_stabilised: bool = False
    targets: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")

    def __post_init__(self) -> None:
        if self.r < 1:
            raise ValueError(f"LoRA rank {self.r} is not positive")
        if self.alpha == 0:
            raise ValueError("LoRA alpha 0 would switch the adapter off")

    @property
    def scale(self) -> float:
        """Factor of B·A."""
        return float(self.alpha / (self.r**0.5 if self.rank_stabilised else self.r))


@dataclass(frozen=True)
class ModelConfig:
    """Every size and switch of a `Transformer`; nothing is left to be derived.

    `n_tokens` is what the tokenizer knows, `vocab_size` the same padded to a multiple of 128; ids from
    `n_tokens` on never occur in data and are never sampled. `softcap` is the bound of the logits (`None`: no bound).
    Dropout probabilities act in training mode only.
    """

    family: Family
    n_tokens: int
    vocab_size: int
    d_model: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    d_ff: int
    seq_len: int
    tied: bool = False
    rope_theta: float = 10_000.0
    norm_eps: float = 1e-6
    softcap: float | None = None
    dropout_embedding: float = 0.0
    dropout_attention: float = 0.0
    dropout_residual: float = 0.0
    embedding_std: float = 1.0
    lora: LoraConfig | None = None

    def __post_init__(self) -> None:
        if self.family not in FAMILIES:
            raise ValueError(f"family {self.family!r} is none of {', '.join(FAMILIES)}")
        if self.n_heads % self.n_kv_heads:
            raise ValueError(f"n_heads {self.n_heads} is not a multiple of n_kv_heads {self.n_kv_heads}")
        if self.head_dim % 2:
            raise ValueError(f"head_dim {self.head_dim} is odd; rotary positions need pairs")
        if self.vocab_size < self.n_tokens:
            raise ValueError(f"vocab_size {self.vocab_size} is smaller than n_tokens {self.n_tokens}")

    @property
    def normalises_embedding(self) -> bool:
        """The residual stream starts from normalised embeddings (nanochat and fast)."""
        return self.family in ("nanochat", "fast")

    @property
    def norm_has_weight(self) -> bool:
        """Normalisation carries a learned scale (all but nanochat and fast)."""
        return not self.normalises_embedding

    @property
    def normalises_queries(self) -> bool:
        """Queries and keys are normalised (all but llama and gpt2)."""
        return self.family in ("qwen3", "nanochat", "fast")

    @property
    def has_bias(self) -> bool:
        """Linear layers carry biases (gpt2 only)."""
        return self.family == "gpt2"

    @property
    def has_learned_positions(self) -> bool:
        """Positions are a table instead of a rotation (gpt2 only)."""
        return self.family == "gpt2"

    @property
    def is_gated(self) -> bool:
        """The feed-forward network is SwiGLU (qwen3 and llama)."""
        return self.family in ("qwen3", "llama")

    @property
    def kv_dim(self) -> int:
        """Width of keys and of values over all their heads."""
        return self.n_kv_heads * self.head_dim

    @property
    def q_dim(self) -> int:
        """Width of queries over all heads."""
        return self.n_heads * self.head_dim

    def has_value_embedding(self, layer: int) -> bool:
        """Every second layer, the last one included, adds an embedding of the token to its values (fast only)."""
        return self.family == "fast" and (self.n_layers - 1 - layer) % 2 == 0

    def to_dict(self) -> dict[str, Any]:
        """JSON-able form, with the version of this format."""
        return {"format": "umsicht-model", "version": CONFIG_VERSION, **asdict(self)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ModelConfig:
        """Inverse of `to_dict`. Raises `ValueError` for another format, another version or unknown keys."""
        data = dict(data)
        if data.pop("format", None) != "umsicht-model":
            raise ValueError("not an Umsicht model configuration")
        version = data.pop("version", None)
        if version != CONFIG_VERSION:
            raise ValueError(
                f"model configuration has version {version}; this Umsicht reads {CONFIG_VERSION}"
            )
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(data) - known)
        if unknown:
            raise ValueError(f"unknown keys in the model configuration: {', '.join(unknown)}")
        lora = data.pop("lora", None)
        if lora is not None:
            lora = LoraConfig(**{**lora, "targets": tuple(lora["targets"])})
        return cls(**data, lora=lora)
