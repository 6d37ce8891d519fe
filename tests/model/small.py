"""Small models with weights in every matrix, so that no path is trivially zero."""

from __future__ import annotations

import torch

from umsicht.model import ModelConfig, Transformer, build


def small_config(family: str, **changes: object) -> ModelConfig:
    sizes: dict[str, object] = {
        "family": family,
        "n_tokens": 120,
        "vocab_size": 128,
        "d_model": 48,
        "n_layers": 3,
        "n_heads": 4,
        "n_kv_heads": 2,
        "head_dim": 12,
        "d_ff": 96,
        "seq_len": 32,
        "softcap": None if family == "qwen3" else 15.0,
    }
    return ModelConfig(**{**sizes, **changes})  # type: ignore[arg-type]  # a table of mixed values


def stirred(config: ModelConfig, seed: int = 0) -> Transformer:
    """A model away from its starting point: zero matrices, scales and gates carry values too."""
    model = build(config, seed)
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.15 * torch.randn(parameter.shape, generator=generator))
    return model.eval()
