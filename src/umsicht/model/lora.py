"""Low-rank adapters: a frozen matrix W answers as W + scale · B·A, where only A and B learn."""

from __future__ import annotations

import copy
import dataclasses
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .config import LoraConfig, ModelConfig


def linear(config: ModelConfig, n_in: int, n_out: int, name: str) -> nn.Linear:
    """The linear layer called `name`, with an adapter where the configuration targets it."""
    if config.lora is not None and name in config.lora.targets:
        return LoraLinear(n_in, n_out, config.has_bias, config.lora)
    return nn.Linear(n_in, n_out, bias=config.has_bias)


class LoraLinear(nn.Linear):
    """A linear layer with an adapter. `weight` keeps its name, so weights of the base fit without renaming.

    B starts at zero: a fresh adapter changes nothing. `enabled = False` answers as the base does.
    """

    def __init__(self, n_in: int, n_out: int, bias: bool, config: LoraConfig) -> None:
        super().__init__(n_in, n_out, bias=bias)
        self.scale = config.scale
        self.dropout = config.dropout
        self.enabled = True
        self.lora_a = nn.Parameter(torch.empty(config.r, n_in))
        self.lora_b = nn.Parameter(torch.zeros(n_out, config.r))
        nn.init.kaiming_uniform_(self.lora_a, a=math.sqrt(5))

    def forward(self, x: Tensor) -> Tensor:
        """`x [..., n_in]` → `[..., n_out]`."""
        base = F.linear(x, self.weight, self.bias)
        if not self.enabled:
            return base
        dropped = F.dropout(x, self.dropout, self.training) if self.dropout else x
        return base + self.scale * F.linear(F.linear(dropped, self.lora_a), self.lora_b)

    def merged_weight(self) -> Tensor:
        """W + scale · B·A, computed in float64 and rounded once."""
        delta = self.lora_b.double() @ self.lora_a.double()
        return (self.weight.double() + self.scale * delta).to(self.weight.dtype)


def adapters(model: nn.Module) -> dict[str, LoraLinear]:
    """Every adapted layer by name."""
    return {name: module for name, module in model.named_modules() if isinstance(module, LoraLinear)}


def with_adapters(config: ModelConfig, lora: LoraConfig) -> ModelConfig:
    """The same model with fresh adapters. Raises `ValueError` where no layer has a targeted name."""
    known = {"q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj"} | (
        {"gate_proj"} if config.is_gated else set()
    )
    targets = tuple(name for name in lora.targets if name in known)
    if not targets:
        raise ValueError(f"none of {', '.join(lora.targets)} is a layer of family {config.family}")
    return dataclasses.replace(config, lora=dataclasses.replace(lora, targets=targets))


def initialise_adapters(model: nn.Module, seed: int) -> None:
    """A from Kaiming's uniform with a = √5 (as PEFT does), B zero; a function of `seed` alone."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for layer in adapters(model).values():
            bound = 1.0 / math.sqrt(layer.in_features)
            layer.lora_a.copy_(torch.empty(layer.lora_a.shape).uniform_(-bound, bound, generator=generator))
            layer.lora_b.zero_()


def freeze_base(model: nn.Module) -> None:
    """Only adapters learn from here on."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.endswith((".lora_a", ".lora_b")))


def merged_state(model: nn.Module) -> dict[str, Tensor]:
    """Weights of the plain model that answers as `model` does; adapters are added into their matrices."""
    state = dict(copy.copy(model.state_dict()))
    for name, layer in adapters(model).items():
        state[f"{name}.weight"] = layer.merged_weight().detach()
        del state[f"{name}.lora_a"], state[f"{name}.lora_b"]
    return state
