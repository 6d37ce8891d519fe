"""T11, exactly: every update of the real optimizer against the same update written down from the papers, in float64.

Adam: Kingma & Ba 2015 (arXiv 1412.6980); decoupled decay: Loshchilov & Hutter 2019 (arXiv 1711.05101); Muon: Jordan et al. 2024
(kellerjordan.github.io/posts/muon). Rates, decay and algorithm of a parameter follow from what it is, found here from the module it stands in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from umsicht.recipe.train import OptimizerSettings
from umsicht.train.groups import RATES

QUINTIC = (3.4445, -4.7750, 2.0315)
TOLERANCE = {"adamw": 2e-3, "muon": 3e-2}
"""Relative error of a move that rounding may cause: float32 moments; float32 Newton–Schulz steps, which are steep at zero."""


def role_of(module: nn.Module, name: str, parameter: nn.Parameter) -> str:
    """matrix, embedding, head or vector: by the module that owns the parameter and by its shape, never by the optimizer's own word."""
    path, _, _ = name.rpartition(".")
    owner = module.get_submodule(path) if path else module
    if isinstance(owner, nn.Embedding):
        return "embedding"
    head = getattr(module, "head_weight", None)
    if head is parameter:
        return "head"
    plain = parameter.dim() == 2 and min(parameter.shape) > 1 and not path.endswith("value_gate")
    return "matrix" if plain else "vector"


@dataclass
class Moments:
    """State of one parameter, float64."""

    first: Tensor
    second: Tensor
    step: int = 0


@dataclass
class Gap:
    """How far one real move was from the expected one."""

    name: str
    role: str
    step: int
    gap: float
    factor: float
    cosine: float


@dataclass
class Replayed:
    """Follows the real optimizer step by step from the gradients it is given."""

    module: nn.Module
    settings: OptimizerSettings
    frozen: tuple[str, ...] = ()
    state: dict[str, Moments] = field(default_factory=dict)
    worst: Gap | None = None

    def expected(self, name: str, parameter: nn.Parameter, before: Tensor, rate_factor: float) -> Tensor:
        """Where `before` should be after this step."""
        settings, role = self.settings, role_of(self.module, name, parameter)
        assert parameter.grad is not None
        gradient = parameter.grad.detach().double()
        start = before.double()
        kept = self.state.setdefault(name, Moments(torch.zeros_like(gradient), torch.zeros_like(gradient)))
        kept.step += 1
        rate = base_rate(settings, role) * rate_factor
        decays = role == "matrix" or (settings.decay_embeddings and role in ("embedding", "head"))
        start = start * (1 - rate * settings.weight_decay) if decays else start
        if settings.kind == "muon" and role == "matrix":
            kept.first = settings.momentum * kept.first + (1 - settings.momentum) * gradient
            update = (1 - settings.momentum) * gradient + settings.momentum * kept.first
            rows, columns = update.shape
            scale = math.sqrt(max(1.0, rows / columns))
            return start - rate * scale * orthogonal(update, settings.newton_schulz_steps)
        kept.first = settings.beta1 * kept.first + (1 - settings.beta1) * gradient
        kept.second = settings.beta2 * kept.second + (1 - settings.beta2) * gradient**2
        first = kept.first / (1 - settings.beta1**kept.step)
        second = kept.second / (1 - settings.beta2**kept.step)
        moved: Tensor = start - rate * first / (second.sqrt() + settings.epsilon)
        return moved

    def see(self, step: int, before: dict[str, Tensor], rate_factor: float) -> Gap | None:
        """Compare every parameter's move; returns the worst one beyond rounding."""
        for name, parameter in self.module.named_parameters():
            if parameter.grad is None or name.startswith(self.frozen or ("\0",)):
                continue
            want = self.expected(name, parameter, before[name], rate_factor) - before[name].double()
            got = parameter.detach().double() - before[name].double()
            role = role_of(self.module, name, parameter)
            algorithm = "muon" if self.settings.kind == "muon" and role == "matrix" else "adamw"
            if algorithm == "adamw":
                # Squares this small are zero in float32: what comes of them is rounding.
                loud = self.state[name].second > 1e-34
                want, got = want * loud, got * loud
            rounding = torch.finfo(parameter.dtype).eps * float(before[name].double().norm())
            size = float(want.norm())
            off = float((got - want).norm())
            if off <= TOLERANCE[algorithm] * size + 2 * rounding:
                continue
            dot = float((got * want).sum())
            found = Gap(
                name,
                role,
                step,
                off / max(size, 1e-30),
                dot / max(size * size, 1e-30),
                dot / max(size * float(got.norm()), 1e-30),
            )
            if self.worst is None or found.gap > self.worst.gap:
                self.worst = found
        return self.worst


def base_rate(settings: OptimizerSettings, role: str) -> float:
    """The rate the recipe gives this role, else the kind's default."""
    given: dict[str, float | None] = {
        "matrix": settings.matrix_rate,
        "embedding": settings.embedding_rate,
        "head": settings.head_rate,
        "vector": settings.vector_rate,
    }
    defaults: dict[Any, float] = dict(RATES[settings.kind])
    return given[role] or defaults[role]


def orthogonal(update: Tensor, steps: int) -> Tensor:
    """Newton–Schulz with the published quintic, plainly: X ← aX + (bA + cA²)X with A = XXᵀ, from X of norm 1."""
    a, b, c = QUINTIC
    tall = update.shape[0] > update.shape[1]
    x: Tensor = update.T if tall else update
    x = x / x.norm().clamp_min(1e-7)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    turned: Tensor = x.T if tall else x
    return turned
