"""Number formats: float32 weights, or bfloat16 weights whose float32 masters live in the optimizer."""

from __future__ import annotations

import torch
from torch import nn

from umsicht.train.machine import Machine


def computing(model: nn.Module, machine: Machine) -> nn.Module:
    """The model in the format of `machine`. Buffers (rotary angles) and single numbers stay float32; every rounded weight has a master."""
    if machine.precision != "bfloat16":
        return model
    for parameter in model.parameters():
        if parameter.ndim:
            parameter.data = parameter.data.to(torch.bfloat16)
    return model
