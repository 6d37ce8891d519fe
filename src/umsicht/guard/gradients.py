"""Gradients of a whole model: read them, set them aside, compare two of them, look at them when a step uses them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import nn

Gradients = dict[str, torch.Tensor]
Seen = TypeVar("Seen")


def gradients_of(module: nn.Module) -> Gradients:
    """A copy of every gradient that is there, by the name of its parameter."""
    return {name: p.grad.detach().clone() for name, p in module.named_parameters() if p.grad is not None}


@contextmanager
def set_aside(module: nn.Module) -> Iterator[None]:
    """No parameter has a gradient at the beginning of the block, and each has its own again afterwards."""
    kept = [(parameter, parameter.grad) for parameter in module.parameters()]
    for parameter, _ in kept:
        parameter.grad = None
    try:
        yield
    finally:
        for parameter, gradient in kept:
            parameter.grad = gradient


@contextmanager
def seen_by_steps(optimizer: torch.optim.Optimizer, look: Callable[[], Seen]) -> Iterator[list[Seen]]:
    """What `look` sees just before every step that the optimizer makes inside the block, in their order."""
    original = optimizer.step
    seen: list[Seen] = []

    def step(*arguments: Any, **keywords: Any) -> Any:
        seen.append(look())
        return original(*arguments, **keywords)

    optimizer.step = step  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        optimizer.step = original  # type: ignore[method-assign]


def relative_gap(left: Gradients, right: Gradients) -> float:
    """Norm of the difference over the norm of `right`, all tensors together."""
    names = set(left) | set(right)
    gap = size = 0.0
    for name in names:
        a, b = left.get(name), right.get(name)
        if a is None or b is None:
            other = a if a is not None else b
            assert other is not None
            gap += float(other.double().square().sum())
            continue
        gap += float((a.double() - b.double()).square().sum())
        size += float(b.double().square().sum())
    return math.sqrt(gap / max(size, 1e-30))


def scale_of(left: Gradients, right: Gradients) -> tuple[float, float]:
    """The factor that fits `left` = factor · `right` best, and how well (cosine)."""
    dot = sum(float((left[name].double() * right[name].double()).sum()) for name in left if name in right)
    a = math.sqrt(sum(float(value.double().square().sum()) for value in left.values()))
    b = math.sqrt(sum(float(value.double().square().sum()) for value in right.values()))
    return dot / max(b * b, 1e-30), dot / max(a * b, 1e-30)
