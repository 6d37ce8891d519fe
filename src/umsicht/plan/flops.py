"""Parameters and floating-point operations of a model, from its sizes alone.

A matrix of n weights costs 2·n operations a token forwards and twice that backwards (Kaplan et al. 2020, §2.1). Attention adds two products of
length `seq_len` a head: 4·seq_len·q_dim forwards a token, counted over the whole square without the causal half, as PaLM does (Chowdhery et al.
2022, appendix B), so that utilisation compares with published figures. Norms, rotations and the softmax are left out: they are no matrix products.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from umsicht.model import ModelConfig

_GATE_WIDTH = 32  # inputs of a value gate, at most (family fast)


@dataclass(frozen=True)
class ModelCost:
    """Counts of one model. Operations are a token's, at full `seq_len`."""

    parameters: int
    embedding_parameters: int
    body_parameters: int
    matrix_flops_forward: int
    attention_flops_forward: int

    @property
    def flops_forward(self) -> int:
        """Operations of a forward pass, a token."""
        return self.matrix_flops_forward + self.attention_flops_forward

    @property
    def flops_training(self) -> int:
        """Operations of a forward and a backward pass, a token: three times the forward ones."""
        return 3 * self.flops_forward

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON, with what follows."""
        return {**asdict(self), "flops_forward": self.flops_forward, "flops_training": self.flops_training}


def model_cost(config: ModelConfig, seq_len: int | None = None) -> ModelCost:
    """Count `config` at `seq_len` (default: its own)."""
    seq_len = seq_len or config.seq_len
    table = config.vocab_size * config.d_model
    tables = table if config.tied else 2 * table
    value_tables = sum(config.has_value_embedding(layer) for layer in range(config.n_layers)) * (
        config.vocab_size * config.kv_dim
    )
    matrices = _layer_matrices(config) * config.n_layers + _gates(config)
    body = matrices + _scales(config)
    return ModelCost(
        parameters=body + tables + value_tables,
        embedding_parameters=tables + value_tables,
        body_parameters=body,
        matrix_flops_forward=2 * (matrices + table),
        attention_flops_forward=4 * seq_len * config.q_dim * config.n_layers,
    )


def utilisation(flops_per_token: float, tokens_per_s: float, peak_flops_per_s: float) -> float:
    """Model FLOPs utilisation (MFU): useful operations a second ÷ what the device could do."""
    return flops_per_token * tokens_per_s / peak_flops_per_s


def _layer_matrices(config: ModelConfig) -> int:
    attention = config.d_model * (2 * config.q_dim + 2 * config.kv_dim)
    feed_forward = (3 if config.family == "qwen3" else 2) * config.d_model * config.d_ff
    return attention + feed_forward


def _gates(config: ModelConfig) -> int:
    gated = sum(config.has_value_embedding(layer) for layer in range(config.n_layers))
    return gated * min(_GATE_WIDTH, config.d_model) * config.n_kv_heads


def _scales(config: ModelConfig) -> int:
    """Weights that are no matrix: norms (qwen3), residual scalars (fast)."""
    if config.family == "qwen3":
        return config.n_layers * (2 * config.d_model + 2 * config.head_dim) + config.d_model
    return 2 * config.n_layers if config.family == "fast" else 0
