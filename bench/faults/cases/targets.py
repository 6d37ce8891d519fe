"""Faults of targets and loss (TG)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from bench.faults import base
from bench.faults.case import Plant, case
from bench.faults.plant import on_batches, on_rows, rewrite
from umsicht.tokens.batch import IGNORE


def _objective(change: Callable[[Any], torch.Tensor]) -> Plant:
    """Other targets on the way into the loss of the training path."""

    def plant(p: Any) -> None:
        from umsicht.train.objective import LanguageModelling

        real = LanguageModelling.__call__

        def call(self: Any, model: Any, batch: Any) -> Any:
            return real(self, model, replace(batch, targets=change(batch)))

        LanguageModelling.__call__ = call  # type: ignore[method-assign]

    return plant


def _twice(batch: Any) -> torch.Tensor:
    return torch.cat([batch.targets[:, 1:], batch.targets[:, -1:] * 0 + IGNORE], dim=1)


def _flattened(batch: Any) -> torch.Tensor:
    return torch.cat([batch.inputs.flatten()[1:], batch.targets[-1:, -1]]).view_as(batch.targets)


case(
    "TG1",
    "TARGET-SHIFT",
    "loss|rows",
    {"code": _objective(_twice)},
    {"code": _objective(lambda b: torch.cat([_twice(b)[:1], b.targets[1:]]))},
)
case(
    "TG2",
    "TARGET-SHIFT",
    "loss|rows",
    {"code": _objective(lambda b: b.inputs)},
    {"run": lambda p: on_batches(p, on_rows(0.03, lambda targets, b: b.inputs.clone()))},
)
case(
    "TG3",
    "TARGET-SHIFT",
    "loss|rows",
    {
        "run": lambda p: on_batches(
            p, lambda b, s: replace(b, inputs=torch.cat([b.inputs[:, :1] * 0 + 511, b.inputs[:, :-1]], 1))
        )
    },
    {
        "run": lambda p: on_batches(
            p,
            lambda b, s: replace(
                b,
                inputs=torch.cat(
                    [torch.cat([b.inputs[:1, :1] * 0 + 511, b.inputs[:1, :-1]], 1), b.inputs[1:]]
                ),
            ),
        )
    },
)
case(
    "TG4",
    "TARGET-SHIFT",
    "loss|rows",
    {"code": _objective(_flattened)},
    {"code": _objective(lambda b: torch.cat([b.targets[:, :-1], b.inputs.roll(-1, 0)[:, :1]], 1))},
)
case(
    "TG5",
    "TARGET-MASK",
    "loss|targets|rows",
    {
        "run": lambda p: on_batches(
            p, lambda b, s: replace(b, targets=torch.where(b.document_ids < 0, 0, b.targets))
        )
    },
    {
        "run": lambda p: on_batches(
            p,
            lambda b, s: replace(
                b,
                targets=torch.where(
                    (b.document_ids < 0) & (torch.arange(b.inputs.shape[1]) == b.inputs.shape[1] - 1),
                    0,
                    b.targets,
                ),
            ),
        )
    },
    recipe=lambda: base.best_fit(base.recipe()),
)


def _eos(p: Any, share: float) -> None:
    eos = p.tokenizer.eos_id
    on_batches(p, on_rows(share, lambda targets, b: torch.where(targets == eos, IGNORE, targets)))


case("TG6", "TARGET-MASK", "loss|targets", {"run": lambda p: _eos(p, 1.0)}, {"run": lambda p: _eos(p, 0.1)})
case(
    "TG7",
    "TARGET-MASK",
    "loss|targets",
    {
        "run": lambda p: on_batches(
            p, lambda b, s: replace(b, targets=b.targets * 0 + IGNORE) if s % 3 == 1 else b
        )
    },
    {"run": lambda p: on_batches(p, on_rows(0.03, lambda targets, b: targets * 0 + IGNORE))},
)
case(
    "TG8",
    "TARGET-MASK",
    "targets|loss",
    {"run": lambda p: on_batches(p, lambda b, s: replace(b, targets=b.targets * 0 + IGNORE))},
    {
        "run": lambda p: on_batches(
            p,
            lambda b, s: replace(
                b, targets=torch.where(torch.arange(b.inputs.shape[1]) < 2, IGNORE, b.targets)
            ),
        )
    },
)


def _gradient(old: str, new: str) -> Plant:
    def plant(p: Any) -> None:
        from umsicht.train import Trainer

        rewrite(Trainer, "_gradient", old, new)

    return plant


def _backward(old: str, new: str) -> Plant:
    """A change in the loop over micro-batches."""

    def plant(p: Any) -> None:
        from umsicht.train.alone import WholeModel

        rewrite(WholeModel, "backward", old, new)

    return plant


_CLEAR = "[setattr(p, 'grad', None) for p in model.parameters()]"
_DIVIDE = "(sums.objective / max(1, count)).backward()"
case(
    "TG11a",
    "LOSS-NORM",
    "training step|loss",
    {"code": _backward(_DIVIDE, "sums.objective.backward()")},
    {"code": _backward(_DIVIDE, "(sums.objective / max(1, count - 4)).backward()")},
)
case(
    "TG11b",
    "LOSS-NORM",
    "training step|loss",
    {
        "code": _backward(
            _DIVIDE, "(sums.objective / max(1, int((batch.targets >= 0).sum())) / len(batches)).backward()"
        )
    },
    {
        "code": _backward(
            _DIVIDE, "(sums.objective / max(1, count) * (1.02 if len(batches) > 1 else 1.0)).backward()"
        )
    },
)
case(
    "TG12",
    "LOSS-NORM OPT-WIRING",
    "training step|loss",
    {
        "code": _backward(
            "            sums = objective(", f"            {_CLEAR}\n            sums = objective("
        )
    },
    {
        "code": _backward(
            "            sums = objective(",
            f"            if len(batches) > 2 and batch is batches[1]: {_CLEAR}\n            sums = objective(",
        )
    },
)
case(
    "TG13",
    "OPT-WIRING LOSS-NORM",
    "training step|optimizer",
    {"code": _gradient("        self.carried.optimizer.zero_grad()\n", "")},
    {
        "code": _gradient(
            "        self.carried.optimizer.zero_grad()\n",
            "        for p in self.carried.optimizer.parameters[:-1]: p.grad = None\n",
        )
    },
)
