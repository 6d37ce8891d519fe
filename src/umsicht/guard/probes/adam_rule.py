"""T11 on an Adam that somebody wrote: under one and the same gradient, every update is the learning rate long, whatever the betas are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from umsicht.findings import Finding
from umsicht.guard.subject import Subject, numbers

MOMENTS = ("exp_avg", "exp_avg_sq")
STEPS = 3
ADAM = re.compile(r"adamw?(?![a-z])|adamw?$", re.IGNORECASE)
RELATIVES = re.compile(
    r"(?<![A-Z])[RNCQ]Adam|(?i:diffadam|adam_?mini|belief|schedule|mix|galore|apollo|grokfast|cautious|stable)"
)
SAID = ("bias_correction", "correct_bias", "do_bias_correction")


def adam_rule(subject: Subject, module: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[Finding]:
    """With m̂ = g and v̂ = g² the rule gives lr · g / (|g| + ε) at step 1, 2 and 3; without the corrections of the start it does not.

    For optimizers that call themselves Adam and keep its two moments; torch's own are what the rule is known from.
    """
    name = type(optimizer).__name__
    if type(optimizer).__module__.startswith("torch.") or not ADAM.search(name) or RELATIVES.search(name):
        return
    if any(group.get(key) is False for group in optimizer.param_groups for key in SAID):
        return
    with subject.borrowed(optimizer):
        worst = _worst(module, optimizer)
    if worst is not None and not 0.98 < worst[2] < 1.02:
        yield Finding(
            "OPT-WIRING/adam-rule",
            "warn",
            "one-step",
            location=f"optimizer: {worst[0]}",
            numbers=numbers(optimizer=name, name=worst[0], step=worst[1], ratio=worst[2]),
        )


def _worst(module: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[str, int, float] | None:
    """(parameter, step, update ÷ learning rate) that is furthest from 1; None where the rule cannot be asked."""
    inside = {id(p) for group in optimizer.param_groups for p in group["params"]}
    weights = [(n, p) for n, p in module.named_parameters() if p.requires_grad and id(p) in inside]
    if not weights:
        return None
    kept = [{key: group.get(key) for key in ("lr", "weight_decay")} for group in optimizer.param_groups]
    generator = torch.Generator().manual_seed(5)
    # Large against epsilon and small against any clip of the optimizer's own.
    signs = {
        name: torch.where(torch.rand(p.shape, generator=generator) < 0.5, -1e-3, 1e-3).to(p)
        for name, p in weights
    }
    worst: tuple[str, int, float] | None = None
    optimizer.state.clear()
    try:
        for group in optimizer.param_groups:
            group["lr"] = 1e-3
            if "weight_decay" in group:
                group["weight_decay"] = 0.0
        for step in range(1, STEPS + 1):
            before = {name: p.detach().double().clone() for name, p in weights}
            for name, p in weights:
                p.grad = signs[name].clone()
            optimizer.step()
            if not all(_moments(optimizer.state.get(p, {})) for _, p in weights):
                return None
            for name, p in weights:
                moved = (before[name] - p.detach().double()) * signs[name].double().sign()
                ratio = float(moved.median()) / 1e-3
                if p.dtype == torch.float32 and (worst is None or abs(ratio - 1) > abs(worst[2] - 1)):
                    worst = (name, step, ratio)
    finally:
        for group, values in zip(optimizer.param_groups, kept, strict=True):
            group.update({key: value for key, value in values.items() if key in group})
    return worst


def _moments(state: Any) -> bool:
    tensors = {
        key
        for key, value in state.items()
        if isinstance(value, torch.Tensor) and value.dim() and key != "step"
    }
    return tensors == set(MOMENTS)
