"""Number formats: float32 weights, bfloat16 weights whose float32 masters live in the optimizer, or float32 weights computed with in bfloat16 (autocast)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import nn

from umsicht.tokens.batch import Batch
from umsicht.train.machine import Machine
from umsicht.train.objective import LossSums, Objective


def sparing_frozen(machine: Machine, model: nn.Module) -> Machine:
    """`machine`, with autocast instead of bfloat16 weights where that would round a frozen weight: no master keeps what it was."""
    if machine.precision != "bfloat16":
        return machine
    frozen = (p.detach() for p in model.parameters() if p.ndim and not p.requires_grad)
    is_rounded = any(not torch.equal(p, p.to(torch.bfloat16).to(p.dtype)) for p in frozen)
    return replace(machine, precision="autocast") if is_rounded else machine


def computing(model: nn.Module, machine: Machine) -> nn.Module:
    """The model in the format of `machine`. Buffers (rotary angles) and single numbers stay float32; every rounded weight has a master."""
    if machine.precision != "bfloat16":
        return model
    for parameter in model.parameters():
        if parameter.ndim:
            parameter.data = parameter.data.to(torch.bfloat16)
    return model


class Autocast:
    """An objective that computes in bfloat16 from float32 weights; everything else of it is as it was."""

    def __init__(self, objective: Objective) -> None:
        self._objective = objective

    def __call__(self, model: Any, batch: Batch) -> LossSums:
        """The sums of the objective."""
        with torch.autocast(batch.inputs.device.type, dtype=torch.bfloat16):
            return self._objective(model, batch)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._objective, name)
