"""Faults that no row of the catalogue describes: each check is meant for a whole kind, and these try other members of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from bench.faults import base
from bench.faults.case import Plant, case
from bench.faults.plant import on_batches, on_model, rewrite
from umsicht.model import build, save_weights
from umsicht.recipe import Recipe
from umsicht.recipe.train import RegularisationSettings


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


def _regularised() -> Recipe:
    settings = base.recipe()
    declared = RegularisationSettings(z_loss=1e-3)
    return settings.model_copy(
        update={"train": settings.train.model_copy(update={"regularisation": declared})}
    )


def _objective(name: str, change: Callable[[float], float]) -> Plant:
    """The objective is handed another coefficient than the recipe declares."""

    def plant(p: Any) -> None:
        import umsicht.train.objective as module

        real = module.loss_sum
        module.loss_sum = lambda *rest, **options: real(*rest, **{**options, name: change(options[name])})

    return plant


case(
    "U8",
    "LOSS-NORM",
    "training step|loss",
    {"code": _objective("z_loss", lambda declared: 10 * declared)},
    {"code": _objective("label_smoothing", lambda declared: declared + 0.02)},
    recipe=_regularised,
)


def _starts(change: Callable[[Any], Any]) -> Plant:
    """A run that continues older weights, something of which is made anew after loading."""

    def plant(p: Any) -> None:
        p.start_at(save_weights(build(p.config, 5), p.folder / "older"))
        on_model(p, change)

    return plant


case(
    "U9",
    "LOAD-MAP",
    "model",
    {"run": _starts(lambda model: model.layers[1].mlp.up_proj.reset_parameters())},
    {"run": _starts(lambda model: model.norm.weight[3:5].mul_(1.001))},
)


def _turned(old: str, new: str) -> Plant:
    def plant(p: Any) -> None:
        from umsicht.model.layers import Attention

        rewrite(Attention, "_position", old, new)

    return plant


_KEY = "rotate(key, *rotation)"
case(
    "U10",
    "NUMERIC",
    "model",
    {"code": _turned(_KEY, "key")},
    {"code": _turned(_KEY, "(key if self.layer == 1 else " + _KEY + ")")},
)


def _short_sight(width: int, layers: str) -> Plant:
    """Attention that silently looks back only a few tokens."""

    def plant(p: Any) -> None:
        from umsicht.model.layers import Attention

        rewrite(
            Attention,
            "_mix",
            "        dropout =",
            f"        if is_causal and self.layer in {layers}:\n"
            "            where = torch.arange(query.shape[2])\n"
            f"            mask = (where[:, None] >= where) & (where[:, None] - where < {width})\n"
            "            is_causal = False\n        dropout =",
        )

    return plant


case(
    "U11",
    "CONTEXT",
    "model",
    {"code": _short_sight(4, "(0, 1)")},
    {"code": _short_sight(14, "(0, 1)")},
)


def _backward(pattern: str, factor: float) -> Plant:
    """Gradients that a hook scales on their way back."""

    def plant(p: Any) -> None:
        def change(model: Any) -> None:
            for name, parameter in model.named_parameters():
                if pattern in name:
                    parameter.register_hook(lambda gradient: gradient * factor)

        on_model(p, change)

    return plant


case(
    "U12",
    "NUMERIC LOSS-NORM OPT-WIRING",
    "gradient|training step",
    {"run": _backward("embed", 10.0)},
    {"run": _backward("layers.1.attention.v_proj", 0.85)},
)
