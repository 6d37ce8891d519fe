"""Which parameter is what: embeddings, head, matrices, vectors. Rates and decay follow from the role, never from a name pattern.

Weight decay reaches matrices only: decay on gains and biases is a known silent fault (fault catalogue OP1).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import nn

from umsicht.findings.errors import UserError
from umsicht.recipe.train import OptimizerSettings
from umsicht.words import t

Role = Literal["matrix", "embedding", "head", "vector"]
ROLES: tuple[Role, ...] = ("matrix", "embedding", "head", "vector")

# Base rates by kind of optimizer and role. Measured at 1–2k tokens a step: docs/measured/defaults.md.
RATES: dict[str, dict[Role, float]] = {
    "muon": {"matrix": 0.02, "embedding": 0.3, "head": 0.01, "vector": 0.02},
    "adamw": {"matrix": 0.003, "embedding": 0.01, "head": 0.003, "vector": 0.003},
}


@dataclass
class Group:
    """Parameters that share a role, an algorithm, a base rate and a decay. Order of names is the model's own."""

    role: Role
    algorithm: Literal["muon", "adamw"]
    rate: float
    weight_decay: float
    names: list[str] = field(default_factory=list)
    parameters: list[nn.Parameter] = field(default_factory=list)


# How a model of ours names its parts, and which group that is.
_OURS: dict[str, Role] = {
    "embedding": "embedding",
    "value_embedding": "embedding",
    "head": "head",
    "matrix": "matrix",
    "gate": "vector",
    "norm": "vector",
    "scalar": "vector",
}


def roles(model: Any) -> Iterator[tuple[str, Any, Role]]:
    """(name, parameter, role) for every trainable parameter, each tensor once (a tied head is its embedding).

    A model with `roles()` says itself what its parameters are; of any other, embeddings are known by their module, the head by
    `head_weight`, matrices by their shape.
    """
    if hasattr(model, "roles"):
        for name, parameter, role in model.roles():
            if parameter.requires_grad:
                yield name, parameter, _OURS[role]
        return
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    head: Any = getattr(model, "head_weight", None)
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        if id(parameter) in embeddings:
            yield name, parameter, "embedding"
        elif parameter is head:
            yield str(name), parameter, "head"
        else:
            is_matrix = parameter.ndim == 2 and min(parameter.shape) > 1
            yield name, parameter, "matrix" if is_matrix else "vector"


def resolved_rates(settings: OptimizerSettings) -> dict[Role, float]:
    """The base rate of each role: what the recipe gives, else the measured default of the kind."""
    given: dict[Role, float | None] = {
        "matrix": settings.matrix_rate,
        "embedding": settings.embedding_rate,
        "head": settings.head_rate,
        "vector": settings.vector_rate,
    }
    defaults = RATES[settings.kind]
    return {role: given[role] or defaults[role] for role in ROLES}


def parameter_groups(model: nn.Module, settings: OptimizerSettings) -> list[Group]:
    """Every trainable parameter in exactly one group. Raises UserError where nothing can be trained."""
    rates = resolved_rates(settings)
    groups: dict[Role, Group] = {}
    for name, parameter, role in roles(model):
        if role not in groups:
            decays = role == "matrix" or (settings.decay_embeddings and role in ("embedding", "head"))
            groups[role] = Group(
                role=role,
                algorithm="muon" if settings.kind == "muon" and role == "matrix" else "adamw",
                rate=rates[role],
                weight_decay=settings.weight_decay if decays else 0.0,
            )
        groups[role].names.append(name)
        groups[role].parameters.append(parameter)
    if not groups:
        raise UserError(
            t("train.nothing_to_train"),
            why=t("train.nothing_to_train_why"),
            fix=t("train.nothing_to_train_fix"),
        )
    return [groups[role] for role in ROLES if role in groups]
