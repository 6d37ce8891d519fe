"""T11 on anybody's optimizer: what decays, what moves, what never can."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from umsicht.findings import Finding
from umsicht.guard.adapt_batch import Example
from umsicht.guard.probes.adam_rule import adam_rule
from umsicht.guard.probes.membership import empty_groups, frozen, get_optimizer, membership, rates
from umsicht.guard.probes.silent import silent
from umsicht.guard.subject import Subject, numbers

WAKES_IN = 6
"""Steps after which every tensor has a gradient: a zero head wakes zero projections, those wake what stands before them."""


def one_step(subject: Subject) -> Iterator[Finding]:
    """T11: membership, groups, rates, decay, then one real step: what moved, by how much, in which number format."""
    module = subject.need_module()
    optimizer = get_optimizer(subject)
    found = [
        *membership(subject, module, optimizer),
        *empty_groups(optimizer),
        *rates(subject, optimizer),
    ]
    found += _decay(subject, module, optimizer)
    yield from found
    if any(finding.grade == "stop" for finding in found):
        return
    yield from adam_rule(subject, module, optimizer)
    if subject.loss is not None and subject.examples:
        found = list(_moves(subject, module, optimizer))
        yield from found
        if not any(finding.grade == "stop" for finding in found):
            yield from _stuck(subject, module, optimizer)


def _decay(subject: Subject, module: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[Finding]:
    """A step with zero gradients moves weights by decay alone: which ones, measured and not read from settings."""
    trainable = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
    inside = {id(p) for group in optimizer.param_groups for p in group["params"]}
    with subject.borrowed(optimizer):
        before = {name: p.detach().clone() for name, p in trainable}
        optimizer.state.clear()
        for _, parameter in trainable:
            parameter.grad = torch.zeros_like(parameter)
        _plain_step(optimizer)
        shrunk = {
            name for name, p in trainable if id(p) in inside and not torch.equal(before[name], p.detach())
        }
    vectors = [
        name
        for name, p in trainable
        if p.dim() < 2 and name in shrunk and float(before[name].float().abs().max()) > 0
    ]
    matrices = [name for name, p in trainable if p.dim() >= 2]
    still = [name for name in matrices if name not in shrunk]
    strongest = max(
        (float(group.get("weight_decay", 0.0) or 0.0) for group in optimizer.param_groups), default=0.0
    )
    split = len(optimizer.param_groups) > 1
    if vectors and subject.declared.no_decay is not False:
        # One group at torch's own default is what people write who have not thought about decay; anything else was meant to be right.
        sure = subject.declared.no_decay or split or strongest > 0.011
        yield Finding(
            "OPT-WIRING/decay-on-vectors",
            ("stop" if subject.declared.no_decay or split else "warn") if sure else "note",
            "one-step",
            location=f"optimizer: {vectors[0]}",
            numbers=numbers(vectors=len(vectors), decay=strongest, names=", ".join(vectors[:5])),
        )
    if strongest > 0 and matrices and len(still) == len(matrices):
        yield Finding(
            "OPT-WIRING/no-decay-at-all",
            "stop",
            "one-step",
            location="optimizer",
            numbers=numbers(decay=strongest, matrices=len(matrices)),
        )


def _plain_step(optimizer: torch.optim.Optimizer) -> None:
    rates = [group.get("lr") for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        if not group.get("lr"):
            group["lr"] = 1e-3
    try:
        optimizer.step()
    finally:
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate


def _learning(subject: Subject, module: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """Parameters that are meant to learn, with their names."""
    return [
        (name, p) for name, p in module.named_parameters() if p.requires_grad and not frozen(subject, name)
    ]


def _moves(subject: Subject, module: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[Finding]:
    """One real step on one real batch."""
    loss_view = subject.need_loss()
    example = subject.small
    trainable = _learning(subject, module)
    view = subject.need_model()
    with subject.awake(), silent(module), view.mode(training=True):
        for _, parameter in trainable:
            parameter.grad = None
        loss_view.of(example).backward()  # type: ignore[no-untyped-call]
        dead = [name for name, p in trainable if p.grad is None]
        zero = [name for name, p in trainable if p.grad is not None and not bool(p.grad.any())]
        broken = [
            name for name, p in trainable if p.grad is not None and not bool(torch.isfinite(p.grad).all())
        ]
    if broken:
        yield Finding(
            "NUMERIC/gradient-not-finite",
            "stop",
            "one-step",
            location=f"gradient: {broken[0]}",
            numbers=numbers(tensors=len(broken), names=", ".join(broken[:5])),
        )
        return
    if dead or zero:
        first = (dead or zero)[0]
        yield Finding(
            "OPT-WIRING/no-gradient",
            "stop",
            "one-step",
            location=f"gradient: {first}",
            numbers=numbers(
                none=len(dead), zero=len(zero), parameters=len(trainable), names=", ".join((dead + zero)[:5])
            ),
        )
    with subject.borrowed(optimizer), silent(module), view.mode(training=True):
        yield from _step_effect(subject, module, optimizer, trainable, example)


def _step_effect(
    subject: Subject,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    trainable: list[tuple[str, nn.Parameter]],
    example: Example,
) -> Iterator[Finding]:
    loss_view = subject.need_loss()
    before = {name: p.detach().clone() for name, p in trainable}
    for _, parameter in trainable:
        parameter.grad = None
    first = loss_view.of(example)
    first.backward()  # type: ignore[no-untyped-call]
    gradients = {name: p.grad.detach().clone() for name, p in trainable if p.grad is not None}
    optimizer.state.clear()
    _plain_step(optimizer)
    rate = max(float(group.get("lr") or 1e-3) for group in optimizer.param_groups)
    yield from _state_dtype(subject, module, optimizer)
    tiny, uphill, ratio, worst = [], [], 0.0, ""
    for name, parameter in trainable:
        gradient = gradients.get(name)
        if gradient is None or not bool(gradient.any()):
            continue
        moved = (parameter.detach() - before[name]).float()
        asked = gradient != 0
        share = float((moved[asked] != 0).float().mean())
        if share < 0.25 and parameter.dim() >= 2:
            tiny.append((name, share))
        if float((moved * gradient.float()).sum()) > 0:
            uphill.append(name)
        relative = float(moved.norm() / before[name].float().norm().clamp_min(1e-8))
        if relative > ratio and parameter.dim() >= 2 and float(before[name].float().norm()) > 1e-3:
            ratio, worst = relative, name
    if tiny:
        yield Finding(
            "OPT-WIRING/update-lost",
            "stop",
            "one-step",
            location=f"optimizer: {tiny[0][0]}",
            numbers=numbers(
                tensors=len(tiny),
                share=tiny[0][1],
                dtype=str(before[tiny[0][0]].dtype).removeprefix("torch."),
                rate=rate,
            ),
        )
    if len(uphill) > 0.5 * len(gradients):
        yield Finding(
            "OPT-WIRING/uphill",
            "stop",
            "one-step",
            location="optimizer",
            numbers=numbers(rate=rate, tensors=len(uphill), maximize=False),
        )
    if ratio > 1.0 and subject.schedule is None:
        yield Finding(
            "OPT-WIRING/rate-high",
            "warn",
            "one-step",
            location=f"optimizer: {worst}",
            numbers=numbers(rate=rate, ratio=ratio),
        )


def _stuck(subject: Subject, module: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[Finding]:
    """Tensors whose gradient is still exactly zero after some real steps: two factors that both start at zero never leave it."""
    loss_view, example = subject.need_loss(), subject.small
    trainable = _learning(subject, module)
    waiting = [name for name, _ in trainable]
    with subject.borrowed(optimizer), silent(module), subject.need_model().mode(training=True):
        optimizer.state.clear()
        for _ in range(WAKES_IN):
            for _, parameter in trainable:
                parameter.grad = None
            loss_view.of(example).backward()  # type: ignore[no-untyped-call]
            waiting = [
                name
                for name, p in trainable
                if name in waiting and (p.grad is None or not bool(p.grad.any()))
            ]
            if not waiting:
                return
            _plain_step(optimizer)
    yield Finding(
        "OPT-WIRING/stuck-at-zero",
        "stop",
        "one-step",
        location=f"gradient: {waiting[0]}",
        numbers=numbers(
            stuck=len(waiting), parameters=len(trainable), steps=WAKES_IN, names=", ".join(waiting[:5])
        ),
    )


def _state_dtype(subject: Subject, module: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[Finding]:
    wanted = subject.declared.state_dtype
    low = set()
    for state in optimizer.state.values():
        for key, value in state.items():
            if (
                isinstance(value, torch.Tensor)
                and value.is_floating_point()
                and value.dtype in (torch.bfloat16, torch.float16)
            ) or (
                isinstance(value, torch.Tensor)
                and wanted
                and value.is_floating_point()
                and value.numel() > 1
                and str(value.dtype) != f"torch.{wanted}"
            ):
                low.add(key)
    if low and wanted not in ("bfloat16", "float16"):
        yield Finding(
            "NUMERIC/state-half",
            "stop",
            "one-step",
            location="optimizer: state",
            numbers=numbers(fields=", ".join(sorted(low))),
        )
