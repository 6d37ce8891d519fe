"""Faults that no row of the catalogue describes: each check is meant for a whole kind, and these try other members of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from bench.faults.case import Plant, case
from bench.faults.plant import on_batches, rewrite


def _adam(old: str, new: str) -> Plant:
    def plant(p: Any) -> None:
        from umsicht.train.adamw import AdamW

        rewrite(AdamW, "step", old, new)

    return plant


def _muon(name: str, old: str, new: str) -> Plant:
    def plant(p: Any) -> None:
        from umsicht.train.muon import Muon

        rewrite(Muon, name, old, new)

    return plant


case(
    "U1",
    "OPT-WIRING",
    "optimizer",
    {"code": _adam("beta1=self._betas[0],", "beta1=self._betas[1],")},
    {"code": _adam("lr=rate,", "lr=rate * (1.05 if len(live) > 3 else 1.0),")},
)
case(
    "U2",
    "OPT-WIRING",
    "optimizer",
    {
        "code": _muon(
            "_nesterov",
            "torch._foreach_lerp_(buffers, gradients, 1.0 - self._momentum)",
            "[b.copy_(g) for b, g in zip(buffers, gradients)]",
        )
    },
    {"code": _muon("_apply", "scale = max(1.0, rows / columns) ** 0.5", "scale = 1.0")},
)


def _validates_training(p: Any) -> None:
    import umsicht.train.validation as module

    rewrite(module.Validation, "__init__", "data.val.sample", "data.train.sample")


def _validates_noisily(p: Any) -> None:
    import umsicht.train.validation as module

    real = module.Validation._score

    def score(self: Any, view: Any, split: Any) -> Any:
        torch.rand(3)
        for parameter in view.model.parameters():
            parameter.data.mul_(1.0 + 1e-7)
        return real(self, view, split)

    module.Validation._score = score  # type: ignore[method-assign]


case("U3", "EVAL-VALIDITY", "evaluation", {"code": _validates_training}, {"code": _validates_noisily})


def _cache(new: str) -> Plant:
    def plant(p: Any) -> None:
        from umsicht.model.cache import KVCache

        real = KVCache.positions
        space = {"real": real, "torch": torch}
        exec(f"def positions(self, n):\n    found = real(self, n)\n    return {new}\n", space)
        KVCache.positions = space["positions"]  # type: ignore[method-assign, assignment]

    return plant


case(
    "U4",
    "EVAL-VALIDITY",
    "model",
    {"code": _cache("found * 0")},
    {"code": _cache("found + 1 if self.length > 3 else found")},
)


def _labels(one: bool) -> Plant:
    """Labels of all documents moved by one, or the last document under the first one's."""

    def plant(p: Any) -> None:
        for path in p.tokens.joinpath("train").glob("*.slices.npy"):
            numbers = np.load(path)
            if one:
                numbers[-1] = numbers[0]
            else:
                numbers = np.roll(numbers, 1, axis=0)
            np.save(path, numbers)

    return plant


case(
    "U5",
    "EVAL-VALIDITY DATA-ORDER",
    "token storage|data order|evaluation",
    {"stored": _labels(False)},
    {"stored": _labels(True)},
)


def _no_copy(p: Any) -> None:
    import umsicht.train.checkpoints as checkpoints

    def snapshot_of(tensors: Any) -> Any:
        seen: set[int] = set()
        return {
            name: tensor.detach()
            for name, tensor in tensors.items()
            if not (tensor.data_ptr() in seen or seen.add(tensor.data_ptr()))  # type: ignore[func-returns-value]
        }

    checkpoints.snapshot_of = snapshot_of


def _forgets(p: Any) -> None:
    from umsicht.guard.monitors.rule import SpikeRule

    SpikeRule.load_state_dict = lambda self, state: None  # type: ignore[method-assign]


case("U6", "RESUME-STATE", "checkpoint|resume", {"code": _no_copy}, {"code": _forgets})


def _best(name: str) -> Plant:
    def plant(p: Any) -> None:
        import umsicht.train.early as early

        getattr(early, name).load_state_dict = lambda self, state: None

    return plant


case(
    "RE12",
    "RESUME-STATE",
    "checkpoint|resume",
    {"code": _best("BestValues")},
    {"code": _best("EarlyStopping")},
)


def _net(loss_only: bool) -> Plant:
    """Nobody stops on a value that is not finite; or only the loss is looked at."""

    def plant(p: Any) -> None:
        import math

        from umsicht.guard.monitors import NonFiniteMonitor
        from umsicht.train import Trainer

        Trainer._refuse_unusable = lambda self, view: None  # type: ignore[method-assign]
        real = NonFiniteMonitor.after_backward

        def look(self: Any, view: Any) -> None:
            if loss_only and not math.isfinite(view.loss):
                real(self, view)

        NonFiniteMonitor.after_backward = look  # type: ignore[method-assign]

    return plant


case("DI5n", "NUMERIC", "training step", {"code": _net(False)}, {"code": _net(True)})


def _last_position(p: Any) -> None:
    on_batches(p, lambda b, s: b if s < 60 else _replace_last(b))


def _replace_last(batch: Any) -> Any:
    from dataclasses import replace

    targets = batch.targets.clone()
    targets[:, -1] = -100
    return replace(batch, targets=targets)


def _numbers_off(p: Any) -> None:
    from dataclasses import replace

    on_batches(p, lambda b, s: replace(b, document_ids=b.document_ids.roll(1, 1).clamp_min(0)))


case("U7", "TARGET-MASK LEAK-DOC", "targets|rows", {"run": _last_position}, {"run": _numbers_off})
