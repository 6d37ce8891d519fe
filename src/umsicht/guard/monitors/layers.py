"""What happens inside, a layer at a time."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from umsicht.findings import Finding
from umsicht.guard.monitors.said import add
from umsicht.guard.subject import numbers
from umsicht.train.hooks import Every, Hook, View


class LayerMonitor(Hook):
    """Evidence, not alarms: update size, scale of activations, share of dead units, a layer at a time; and layers that have stopped moving."""

    name = "guard-layers"
    sees_inside = True

    def __init__(self, every: int = 50) -> None:
        self.every = Every(steps=every)
        self.handles: list[Any] = []
        self.figures: dict[str, float] = {}
        self.before: dict[str, torch.Tensor] = {}
        self.still: dict[str, int] = {}
        self.said: set[str] = set()

    def before_step(self, view: View) -> None:
        """Listen to the blocks during this step only."""
        for name, block in _blocks(view.model):
            self.handles.append(block.register_forward_hook(self._listener(name)))

    def _listener(self, name: str) -> Any:
        def hook(_: nn.Module, inputs: Any, output: Any) -> None:
            tensor = output[0] if isinstance(output, tuple) else output
            if isinstance(tensor, torch.Tensor) and tensor.is_floating_point():
                wide = tensor.detach()
                self.figures[f"layers/{name}/rms"] = float(wide.float().square().mean().sqrt())

        return hook

    def after_backward(self, view: View) -> None:
        """Remember the weights for the size of the update."""
        for handle in self.handles:
            handle.remove()
        self.handles = []
        self.before = {name: p.detach().clone() for name, p in view.model.named_parameters() if p.dim() >= 2}

    def after_step(self, view: View) -> None:
        """Log; say once that a matrix no longer moves at all."""
        groups: dict[str, list[float]] = {}
        for name, parameter in view.model.named_parameters():
            old = self.before.get(name)
            if old is None:
                continue
            moved = float(
                (parameter.detach().float() - old.float()).norm() / old.float().norm().clamp_min(1e-8)
            )
            groups.setdefault(_layer(name), []).append(moved)
            self.still[name] = 0 if moved > 0 else self.still.get(name, 0) + 1
            if self.still[name] == 3 and name not in self.said and not view.skipped:
                self.said.add(name)
                add(
                    view,
                    Finding(
                        "OPT-WIRING/stopped-moving",
                        "warn",
                        "run",
                        location=f"run: {name}",
                        numbers=numbers(step=view.step, name=name),
                    ),
                )
        self.before = {}
        figures = {f"layers/{name}/update": max(values) for name, values in groups.items()}
        view.log({**self.figures, **figures})
        dead = [name for name, value in self.figures.items() if not value > 0]
        if dead and "dead" not in self.said:
            self.said.add("dead")
            add(
                view,
                Finding(
                    "NUMERIC/dead-layer",
                    "warn",
                    "run",
                    location=f"run: {dead[0]}",
                    numbers=numbers(step=view.step, layers=len(dead)),
                ),
            )
        self.figures = {}


def _layer(name: str) -> str:
    parts = name.split(".")
    for index, part in enumerate(parts):
        if part.isdigit():
            return ".".join(parts[: index + 1])
    return parts[0]


def _blocks(module: nn.Module) -> list[tuple[str, nn.Module]]:
    best: list[tuple[str, nn.Module]] = []
    for prefix, child in module.named_modules():
        if isinstance(child, nn.ModuleList) and len(child) > len(best):
            best = [(f"{prefix}.{index}" if prefix else str(index), item) for index, item in enumerate(child)]
    return best
