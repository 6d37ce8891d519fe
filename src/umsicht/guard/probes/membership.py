"""T11 on anybody's optimizer: who is in it, in which groups, at which rates."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import nn

from umsicht.findings import Finding
from umsicht.guard.subject import Cannot, Subject, numbers


def get_optimizer(subject: Subject) -> torch.optim.Optimizer:
    """The optimizer given, or made from the factory given."""
    given = subject.optimizer
    if given is None:
        raise Cannot("no optimizer was given")
    if isinstance(given, torch.optim.Optimizer):
        return given
    inner = getattr(given, "optimizer", None)
    if isinstance(inner, torch.optim.Optimizer):
        return inner
    if callable(given):
        made = subject.extra.get("made_optimizer") or given(subject.need_module().parameters())
        subject.extra["made_optimizer"] = made
        if isinstance(made, torch.optim.Optimizer):
            return made
    raise Cannot(f"optimizer= is a {type(given).__name__}, not a torch optimizer")


def frozen(subject: Subject, name: str) -> bool:
    """True for a parameter that is declared frozen."""
    return any(name == prefix or name.startswith(prefix) for prefix in subject.declared.frozen)


def about(name: str, names: list[str], total: int, *, counted: str = "") -> Finding:
    """What is wrong with these of all `total` parameters; `counted` is what their number is called where that is not `name`."""
    counts = {counted or name: len(names), "parameters": total, "names": ", ".join(names[:5])}
    place = f"optimizer: {names[0]}"
    return Finding(f"OPT-WIRING/{name}", "stop", "one-step", location=place, numbers=numbers(**counts))


def membership(subject: Subject, module: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[Finding]:
    """Each weight once, none of another model, none that is declared frozen, none left out."""
    inside: dict[int, int] = {}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            inside[id(parameter)] = inside.get(id(parameter), 0) + 1
    own = {id(parameter): name for name, parameter in module.named_parameters()}
    strangers = sum(1 for key in inside if key not in own)
    missing = [
        name
        for name, p in module.named_parameters()
        if p.requires_grad and id(p) not in inside and not frozen(subject, name)
    ]
    total = len(own)
    if strangers and (missing or strangers == len(inside)):
        yield Finding(
            "OPT-WIRING/other-model",
            "stop",
            "one-step",
            location="optimizer",
            numbers=numbers(strangers=strangers, parameters=total, missing=len(missing)),
        )
        return
    if missing:
        yield about("missing", missing, total)
    if strangers:
        yield Finding(
            "OPT-WIRING/strangers",
            "warn",
            "one-step",
            location="optimizer",
            numbers=numbers(strangers=strangers, parameters=total),
        )
    doubled = [own[key] for key, count in inside.items() if count > 1 and key in own]
    if doubled:
        yield Finding(
            "OPT-WIRING/doubled",
            "stop",
            "one-step",
            location=f"optimizer: {doubled[0]}",
            numbers=numbers(doubled=len(doubled)),
        )
    learning = [
        name
        for name, p in module.named_parameters()
        if frozen(subject, name) and p.requires_grad and id(p) in inside
    ]
    if learning:
        yield about("frozen-learns", learning, total, counted="learning")
    still = [
        name for name, p in module.named_parameters() if not p.requires_grad and not frozen(subject, name)
    ]
    if still and len(still) < 0.5 * total:
        yield about("frozen", still, total)
    elif still and not subject.declared.frozen:
        yield Finding(
            "OPT-WIRING/mostly-frozen",
            "note",
            "one-step",
            location="optimizer",
            numbers=numbers(frozen=len(still), parameters=total, names=", ".join(still[:3])),
        )


def empty_groups(optimizer: torch.optim.Optimizer) -> Iterator[Finding]:
    """A group without weights: the filter that was to fill it matches nothing."""
    empty = [index for index, group in enumerate(optimizer.param_groups) if not group["params"]]
    if empty:
        yield Finding(
            "OPT-WIRING/empty-group",
            "stop",
            "one-step",
            location=f"optimizer: group {empty[0]}",
            numbers=numbers(groups=len(optimizer.param_groups)),
        )


def rates(subject: Subject, optimizer: torch.optim.Optimizer) -> Iterator[Finding]:
    """Rates, betas and epsilon that nobody means."""
    for index, group in enumerate(optimizer.param_groups):
        rate = float(group.get("lr", 0.0))
        where = f"optimizer: group {index}"
        if not math.isfinite(rate) or rate < 0 or group.get("maximize"):
            yield Finding(
                "OPT-WIRING/uphill",
                "stop",
                "one-step",
                location=where,
                numbers=numbers(rate=rate, maximize=bool(group.get("maximize"))),
            )
        elif rate == 0.0 and subject.schedule is None:
            yield Finding(
                "OPT-WIRING/rate-zero", "warn", "one-step", location=where, numbers=numbers(rate=rate)
            )
        decay = group.get("weight_decay", 0.0) or 0.0
        if not 0.0 <= float(decay) * max(rate, 0.0) < 1.0:
            yield Finding(
                "OPT-WIRING/decay-odd",
                "stop",
                "one-step",
                location=where,
                numbers=numbers(decay=float(decay), rate=rate),
            )
        betas = group.get("betas")
        if (
            betas is not None
            and len(betas) == 2
            and (betas[1] < betas[0] - 0.05 or not 0 <= betas[0] < 1 or not 0 <= betas[1] < 1)
        ):
            yield Finding(
                "OPT-WIRING/betas",
                "warn",
                "one-step",
                location=where,
                numbers=numbers(beta1=float(betas[0]), beta2=float(betas[1])),
            )
        if float(group.get("eps", 0.0) or 0.0) > 1e-4 and "betas" in group:
            yield Finding(
                "OPT-WIRING/epsilon",
                "warn",
                "one-step",
                location=where,
                numbers=numbers(epsilon=float(group["eps"])),
            )
