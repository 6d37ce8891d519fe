"""Weights at the start of training."""

from __future__ import annotations

import math

import torch
from torch import nn

from .config import ModelConfig
from .lora import initialise_adapters
from .transformer import Transformer, role_of

OUTPUT_PROJECTIONS = ("o_proj.weight", "down_proj.weight")


def build(
    config: ModelConfig,
    seed: int,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Transformer:
    """A model whose weights are a function of `config` and `seed` alone, the same on every device.

    Output projections of every block start at zero (each block is the identity; Zhang et al. 2019, "Fixup"), other
    matrices uniform with variance 1 / fan-in, the head small, so that the first loss is ln(vocab_size) up to
    sampling noise. The global random state is left untouched.
    """
    with torch.random.fork_rng(devices=[]):
        model = Transformer(config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            _initialise(name, parameter, config, generator)
    initialise_adapters(model, seed)
    return model.to(device=device, dtype=dtype)


def _initialise(name: str, parameter: nn.Parameter, config: ModelConfig, generator: torch.Generator) -> None:
    role = role_of(name)
    if role == "embedding":
        parameter.normal_(0.0, config.embedding_std, generator=generator)
    elif role == "head":
        parameter.normal_(0.0, 0.001, generator=generator)
    elif role == "gate" or name.endswith(OUTPUT_PROJECTIONS):
        parameter.zero_()
    elif role in ("matrix", "value_embedding"):
        bound = math.sqrt(3.0 / config.d_model)
        parameter.uniform_(-bound, bound, generator=generator)
