"""T18, T19, T20 rehearsed: the net under the run is tried before the run needs it.

A value that is not finite is planted in a short real run, in a weight and in a gradient alone: the run must stop before the optimizer moves, and
leave whole checkpoints behind. The rule for spikes and shifts is fed a made-up loss with one of each, and one with none.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from umsicht.findings import Finding
from umsicht.guard.probes.rehearse import Stage, fit, stage_of
from umsicht.guard.subject import Subject, numbers
from umsicht.record import Run
from umsicht.train import checkpoints
from umsicht.train.hooks import Hook, StopRun, View

STAGE = "stability"
POISONED = 3


class Poison(Hook):
    """Makes one number of one step infinite: a weight before the step, or a gradient behind the backward pass."""

    name = "guard-poison"

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.handles: list[Any] = []
        self.before: dict[str, torch.Tensor] = {}
        self.moved = False

    def before_step(self, view: View) -> None:
        """Plant it."""
        if view.step != POISONED:
            return
        target = _matrix(view.model)
        self.before = {name: p.detach().clone() for name, p in view.model.named_parameters()}
        if self.kind == "weight":
            with torch.no_grad():
                target.view(-1)[0] = math.inf
        else:
            poisoned = target.register_hook(lambda g: g.clone().fill_(math.nan))  # type: ignore[no-untyped-call]  # untyped in torch
            self.handles.append(poisoned)

    def after_step(self, view: View) -> None:
        """Where this is reached with the poison in, the net has a hole."""
        if view.step == POISONED and not view.skipped:
            self.moved = any(
                not torch.equal(value, view.model.get_parameter(name).detach())
                for name, value in self.before.items()
            )

    def release(self) -> None:
        """Take the hook out."""
        for handle in self.handles:
            handle.remove()


def _matrix(model: nn.Module) -> nn.Parameter:
    """A weight in the middle of the model: the poison must be found wherever it is."""
    matrices = [p for p in model.parameters() if p.dim() >= 2 and p.requires_grad]
    return matrices[len(matrices) // 2]


def safety_net(subject: Subject) -> Iterator[Finding]:
    """Nothing that is not finite reaches weights or checkpoints; spikes and shifts are seen; quiet runs are left alone."""
    stage = stage_of(subject)
    make = stage.monitors
    for kind in ("weight", "gradient"):
        poison = Poison(kind)
        settings = stage.short(POISONED + 3)
        settings = settings.model_copy(
            update={"checkpoint": settings.checkpoint.model_copy(update={"every_steps": 1})}
        )
        watching = make(settings, POISONED + 3) if make is not None else []
        trainer = stage.trainer(f"net-{kind}", hooks=[poison, *watching], settings=settings)
        outcome = fit(trainer)
        poison.release()
        hole = _hole(trainer.run, outcome, poison)
        if hole:
            yield Finding(
                "NUMERIC/net-open",
                "stop",
                STAGE,
                location=f"training step: not finite {kind}",
                numbers=numbers(kind=kind, step=POISONED, hole=hole, reason=outcome.reason),
            )
            return
    if make is not None:
        yield from _curves(stage, make)


def _hole(run: Run, outcome: Any, poison: Poison) -> str:
    if poison.moved:
        return "weights moved"
    if outcome.reason != "stopped-by-guard":
        return "not stopped"
    newest = checkpoints.latest(run)
    if newest is not None:
        kept = checkpoints.load(newest)
        tensors = [*kept.model.values(), *kept.optimizer.values()]
        if any(t.is_floating_point() and not bool(torch.isfinite(t).all()) for t in tensors):
            return "checkpoint"
    return ""


def series(kind: str, steps: int = 420) -> list[float]:
    """A made-up loss: a falling curve with noise of 0.05 nat, and from step 300 on what `kind` says."""
    rng = random.Random(7)
    losses = [3.0 + 2.0 * math.exp(-step / 120) + rng.gauss(0.0, 0.05) for step in range(steps)]
    change = {"quiet": 0.0, "spike": 1.5, "shift-up": 0.4, "shift-down": -0.4}[kind]
    last = 302 if kind == "spike" else steps
    return [loss + (change if 300 <= step < last else 0.0) for step, loss in enumerate(losses)]


def _curves(stage: Stage, make: Any) -> Iterator[Finding]:
    """The run's own curve monitor over the made-up losses."""
    for kind in ("quiet", "spike", "shift-up", "shift-down"):
        run = stage.run(f"net-{kind}")
        hooks = [hook for hook in make(stage.settings, 420) if hook.name == "guard-curve"]
        model: Any = nn.Linear(1, 1)
        view = View(run, model, None, torch.device("cpu"), 420)  # type: ignore[arg-type]  # the curve monitor asks for no optimizer
        stopped = False
        for step, loss in enumerate(series(kind), start=1):
            view.step, view.loss, view.lr, view.grad_norm = step, loss, 1e-3, 1.0
            try:
                for hook in hooks:
                    hook.after_backward(view)
            except StopRun:
                stopped = True
                break
        seen = [one["id"] for one in run.findings()] + [f"CURVE/{kind}"] * stopped
        wrong = bool(seen) if kind == "quiet" else f"CURVE/{kind}" not in seen
        if wrong:
            yield Finding(
                "CURVE/monitor-blind",
                "stop",
                STAGE,
                location=f"monitor: {kind}",
                numbers=numbers(kind=kind, seen=", ".join(seen) or "—"),
            )
            return
