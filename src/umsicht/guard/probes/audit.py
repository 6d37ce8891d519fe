"""T11 on Umsicht's own trainer: five real steps, each gradient and each update against one computed apart."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

from umsicht.findings import Finding
from umsicht.guard.gradients import gradients_of, relative_gap, scale_of, set_aside
from umsicht.guard.probes.algebra import independent, silent_models
from umsicht.guard.probes.closed_form import schedule
from umsicht.guard.probes.membership import about, frozen
from umsicht.guard.probes.rehearse import Stage, fit, stage_of
from umsicht.guard.probes.replayed import Replayed, base_rate
from umsicht.guard.subject import Subject, numbers, wake
from umsicht.recipe.train import TrainSettings
from umsicht.train.hooks import Hook, View


class StepAudit(Hook):
    """Compares each step's gradient with one computed apart, its clipped norm, and remembers which weights moved."""

    name = "guard-step-audit"

    def __init__(self, settings: TrainSettings, limit: float) -> None:
        self.settings = settings
        self.limit = limit
        self.findings: list[Finding] = []
        self.before: dict[str, torch.Tensor] = {}
        self.start: dict[str, torch.Tensor] = {}
        self.kept: dict[str, torch.Tensor] = {}
        self.rates: list[float] = []
        self.replayed: Replayed | None = None

    def at_start(self, view: View) -> None:
        """Remember the first weights."""
        self.start = {name: p.detach().clone() for name, p in view.model.named_parameters()}
        self.replayed = Replayed(view.model, self.settings.optimizer)

    def after_backward(self, view: View) -> None:
        """The gradient of this step against an independent one at these very weights."""
        got = gradients_of(view.model)
        with set_aside(view.model):
            _, want = independent(view.model, view.batch, self.settings)
        gap = relative_gap(got, want)
        if gap > self.limit and view.step > 1:
            factor, cosine = scale_of(got, want)
            self.findings.append(
                Finding(
                    "OPT-WIRING/gradient-left-over",
                    "stop",
                    "one-step",
                    location="training step",
                    numbers=numbers(
                        gap=gap, factor=factor, cosine=cosine, call=view.step, micro_batches=1, case="steps"
                    ),
                )
            )
        self.before = {name: p.detach().clone() for name, p in view.model.named_parameters()}
        self.kept = got
        self.rates.append(view.lr)

    def after_step(self, view: View) -> None:
        """What the clip left, and whether weights went down the gradient."""
        clip = self.settings.optimizer.clip_norm
        squares = [p.grad.double().square().sum() for p in view.model.parameters() if p.grad is not None]
        norm = math.sqrt(float(sum(squares))) if squares else 0.0
        raw = math.sqrt(sum(float(value.double().square().sum()) for value in self.kept.values()))
        want = min(raw, clip) if clip else raw
        if abs(norm - want) > 5e-3 * max(want, 1e-9) or abs(view.grad_norm - raw) > 5e-3 * max(raw, 1e-9):
            self.findings.append(
                Finding(
                    "OPT-WIRING/clip",
                    "stop",
                    "one-step",
                    location="optimizer: clip",
                    numbers=numbers(norm=norm, expected=want, raw=raw, clip=clip, reported=view.grad_norm),
                )
            )
        assert self.replayed is not None
        first = view.optimizer.groups[0]
        self.replayed.see(view.step, self.before, view.lr / base_rate(self.settings.optimizer, first.role))
        down = sum(
            float(((p.detach() - self.before[name]).double() * self.kept[name].double()).sum())
            for name, p in view.model.named_parameters()
            if name in self.kept
        )
        if down > 0 and view.step == 1:
            self.findings.append(
                Finding(
                    "OPT-WIRING/uphill",
                    "stop",
                    "one-step",
                    location="optimizer",
                    numbers=numbers(rate=view.lr, tensors=len(self.kept), maximize=False),
                )
            )


def one_step(subject: Subject) -> Iterator[Finding]:
    """Five real steps: gradient, clip, rate, direction, what moved, what decays, in which format the moments are."""
    stage = stage_of(subject)
    precision = str((stage.machine or {}).get("precision", "float32"))
    limit = 5e-4 if precision == "float32" else 5e-2
    # First: what is in no group is never cleared either, and would look like a gradient left over.
    absent = list(_membership(subject, stage))
    if absent:
        yield from absent
        return
    with silent_models(stage) as quiet:
        settings = _clipping(quiet, stage.even(5))
        audit = StepAudit(settings, limit)
        trainer = quiet.trainer("one-step", hooks=[audit], settings=settings)
        fit(trainer)
        yield from audit.findings[:1]
        if audit.findings:
            return
        found = [*_still(subject, trainer, audit), *_moments(trainer)]
    found += [*schedule(stage, audit.rates, trainer), *_decay(stage)]
    yield from found
    if not found:
        yield from _updates(audit)


def _clipping(stage: Stage, settings: TrainSettings) -> TrainSettings:
    """The settings with a clip that surely acts: the norm of the first steps may never reach the declared one."""
    clip = settings.optimizer.clip_norm
    if clip is None:
        return settings
    _, gradient = independent(stage.make_model(), stage.make_source().batch(0), settings)
    norm = math.sqrt(sum(float(value.double().square().sum()) for value in gradient.values()))
    acting = min(clip, 0.3 * norm) if norm > 0 else clip
    return settings.model_copy(
        update={"optimizer": settings.optimizer.model_copy(update={"clip_norm": acting})}
    )


def _updates(audit: StepAudit) -> Iterator[Finding]:
    """The worst update of the five steps, where it is further from the declared rule than rounding allows."""
    gap = audit.replayed.worst if audit.replayed is not None else None
    if gap is not None:
        yield Finding(
            "OPT-WIRING/update",
            "stop",
            "one-step",
            location=f"optimizer: {gap.name}",
            numbers=numbers(
                name=gap.name,
                role=gap.role,
                step=gap.step,
                gap=gap.gap,
                factor=gap.factor,
                cosine=gap.cosine,
            ),
        )


def _still(subject: Subject, trainer: Any, audit: StepAudit) -> Iterator[Finding]:
    frozen = subject.declared.frozen
    still = [
        name
        for name, p in trainer.model.named_parameters()
        if torch.equal(p.detach(), audit.start[name].to(p.dtype))
        and not any(name.startswith(prefix) for prefix in frozen)
    ]
    if still:
        yield Finding(
            "OPT-WIRING/never-moves",
            "stop",
            "one-step",
            location=f"optimizer: {still[0]}",
            numbers=numbers(
                still=len(still),
                parameters=len(audit.start),
                names=", ".join(still[:5]),
                steps=len(audit.rates),
            ),
        )
        return
    lost = []
    for name, p in trainer.model.named_parameters():
        if p.dim() < 2 or name not in audit.kept:
            continue
        asked = audit.kept[name] != 0
        moved = (p.detach() != audit.start[name].to(p.dtype)) & asked
        share = float(moved.sum()) / max(1, int(asked.sum()))
        if share < 0.5:
            lost.append((name, share, str(p.dtype).removeprefix("torch.")))
    if lost:
        yield Finding(
            "OPT-WIRING/update-lost",
            "stop",
            "one-step",
            location=f"optimizer: {lost[0][0]}",
            numbers=numbers(tensors=len(lost), share=lost[0][1], dtype=lost[0][2], rate=audit.rates[-1]),
        )


def _moments(trainer: Any) -> Iterator[Finding]:
    optimizer = trainer.carried.optimizer
    low = sorted(
        name
        for name, value in optimizer.state_tensors().items()
        if value.is_floating_point() and value.element_size() < 4
    )
    if low:
        yield Finding(
            "NUMERIC/state-half",
            "stop",
            "one-step",
            location=f"optimizer: {low[0]}",
            numbers=numbers(fields=", ".join(low[:3])),
        )


def _membership(subject: Subject, stage: Stage) -> Iterator[Finding]:
    """Every trainable parameter in exactly one group of the real optimizer."""
    from umsicht.train import Optimizer

    model = stage.make_model()
    optimizer = Optimizer(model, stage.settings.optimizer)
    inside = [id(p) for p in optimizer.parameters]
    known = set(inside)
    own = dict(model.named_parameters())
    missing = [
        name
        for name, p in own.items()
        if p.requires_grad and id(p) not in known and not frozen(subject, name)
    ]
    doubled = len(inside) - len(known)
    if missing:
        yield about("missing", missing, len(own))
    if doubled:
        yield Finding(
            "OPT-WIRING/doubled", "stop", "one-step", location="optimizer", numbers=numbers(doubled=doubled)
        )


def _decay(stage: Stage) -> Iterator[Finding]:
    """A step with zero gradients: matrices shrink by 1 - rate · decay, vectors (and tables, unless declared) stay to the bit."""
    from umsicht.train import Optimizer

    model = stage.make_model()
    wake(model, stage.seed)
    settings = stage.settings.optimizer
    optimizer = Optimizer(model, settings)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step(1.0)
    wrong: list[tuple[str, float, float]] = []
    for group in optimizer.groups:
        decays = group.role == "matrix" or (settings.decay_embeddings and group.role in ("embedding", "head"))
        want = 1.0 - group.rate * settings.weight_decay if decays else 1.0
        for name, parameter in zip(group.names, group.parameters, strict=True):
            if float(before[name].float().norm()) == 0.0:
                continue
            got = float(
                (parameter.detach().double() * before[name].double()).sum()
                / before[name].double().square().sum()
            )
            if abs(got - want) > 1e-3 * abs(1 - want) + 1e-6:
                wrong.append((name, got, want))
    vectors = [row for row in wrong if row[2] == 1.0]
    if vectors:
        yield Finding(
            "OPT-WIRING/decay-on-vectors",
            "stop",
            "one-step",
            location=f"optimizer: {vectors[0][0]}",
            numbers=numbers(
                vectors=len(vectors),
                decay=settings.weight_decay,
                names=", ".join(row[0] for row in vectors[:5]),
            ),
        )
    elif wrong:
        yield Finding(
            "OPT-WIRING/decay-amount",
            "stop",
            "one-step",
            location=f"optimizer: {wrong[0][0]}",
            numbers=numbers(
                tensors=len(wrong), found=wrong[0][1], expected=wrong[0][2], decay=settings.weight_decay
            ),
        )
