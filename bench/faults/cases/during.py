"""Faults that begin in the middle of the run: what the contracts cannot see and the monitors must."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from bench.faults.case import Plant, case
from bench.faults.plant import on_batches
from umsicht.tokens.batch import Batch

BEGIN = 90


def _later(change: Callable[[Batch, int], Batch], last: int = 1 << 30) -> Plant:
    """A change of batches from step `BEGIN` on."""
    return lambda p: on_batches(p, lambda b, step: change(b, step) if BEGIN <= step < last else b)


def _again(back: int) -> Plant:
    """The data of an earlier step once more, from `BEGIN` on: what a resume that starts over looks like."""

    def plant(p: Any) -> None:
        real = p.make_source
        p.make_source = lambda steps: _Again(real(steps), back)

    return plant


class _Again:
    def __init__(self, source: Any, back: int) -> None:
        self.source, self.back = source, back

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)

    def _place(self, step: int) -> int:
        return step - self.back if step >= BEGIN else step

    def batch(self, step: int) -> Any:
        return self.source.batch(self._place(step))

    def micro_batches(self, step: int, *rest: Any) -> Any:
        return self.source.micro_batches(self._place(step), *rest)


case("RE4r", "DATA-ORDER", "data order", {"during": _again(BEGIN)}, {"during": _again(1)})


def _random(batch: Batch, share: float) -> Batch:
    generator = torch.Generator().manual_seed(int(batch.rows[0]))
    rows = torch.rand(batch.inputs.shape[0], generator=generator) < share
    ids = torch.randint(0, 250, (batch.inputs.shape[0], batch.inputs.shape[1] + 1), generator=generator)
    return replace(
        batch,
        inputs=torch.where(rows[:, None], ids[:, :-1], batch.inputs),
        targets=torch.where(rows[:, None], ids[:, 1:], batch.targets),
    )


case(
    "BAD",
    "CURVE DATA-ORDER",
    "run|data order",
    {"during": _later(lambda b, s: _random(b, 1.0), BEGIN + 1)},
    {"during": _later(lambda b, s: _random(b, 0.35))},
    steps=260,
)


def _hidden_rate(factor: float, last: int = 1 << 30) -> Plant:
    """The optimizer is handed another rate than the loop says."""

    def plant(p: Any) -> None:
        from umsicht.train.optimizer import Optimizer

        real = Optimizer.step
        done = {"steps": 0}

        def step(self: Any, asked: float) -> None:
            done["steps"] += 1
            real(self, asked * (factor if BEGIN < done["steps"] <= last else 1.0))

        Optimizer.step = step  # type: ignore[method-assign]

    return plant


case(
    "OP9r",
    "CURVE OPT-WIRING NUMERIC",
    "run|schedule|optimizer",
    {"during": _hidden_rate(100.0, BEGIN + 5)},
    {"during": _hidden_rate(20.0)},
    steps=200,
)


def _weight(value: float) -> Plant:
    """One weight damaged for good, as by a flipped bit."""

    def plant(p: Any) -> None:
        from umsicht.train.optimizer import Optimizer

        real = Optimizer.step
        done = {"steps": 0}

        def step(self: Any, asked: float) -> None:
            real(self, asked)
            done["steps"] += 1
            if done["steps"] == BEGIN:
                with torch.no_grad():
                    self.parameters[3].view(-1)[5] = value

        Optimizer.step = step  # type: ignore[method-assign]

    return plant


case(
    "DI3r",
    "NUMERIC CURVE",
    "run",
    {"during": _weight(math.inf)},
    {"during": _weight(3.0e38)},
    steps=160,
)


def _transient(kind: str) -> Plant:
    """One wrong number once: what a failing unit gives, and what a replay does not."""

    def plant(p: Any) -> None:
        real = p.make_model

        def make() -> Any:
            model = real()
            calls = {"n": 0}

            def once(module: Any, inputs: Any, output: Any) -> Any:
                if module.training:
                    calls["n"] += 1
                if calls["n"] == BEGIN and module.training:
                    calls["n"] += 1
                    return output + (math.nan if kind == "nan" else math.inf)
                return output

            model.layers[1].mlp.register_forward_hook(once)
            return model

        p.make_model = make

    return plant


case("DI3t", "NUMERIC", "run", {"during": _transient("nan")}, {"during": _transient("inf")})
