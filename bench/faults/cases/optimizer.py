"""Faults of optimizer and schedule (OP)."""

from __future__ import annotations

from typing import Any

from bench.faults.case import Plant, case
from bench.faults.plant import on_model, rewrite


def _groups(old: str, new: str) -> Plant:
    def plant(p: Any) -> None:
        import umsicht.train.groups as module
        import umsicht.train.optimizer as user

        rewrite(module, "parameter_groups", old, new)
        user.parameter_groups = module.parameter_groups

    return plant


case(
    "OP1",
    "OPT-WIRING",
    "optimizer",
    {"code": _groups('decays = role == "matrix" or', "decays = True or")},
    {"code": _groups('decays = role == "matrix" or', 'decays = role in ("matrix", "vector") or')},
)
case(
    "OP2",
    "OPT-WIRING",
    "optimizer",
    {"code": _groups('decays = role == "matrix" or', 'decays = role == "matrices" or')},
    {
        "code": _groups(
            "settings.weight_decay if decays else 0.0", "settings.weight_decay * 0.8 if decays else 0.0"
        )
    },
)


def _skip(condition: str) -> Plant:
    return _groups(
        "        groups[role].names.append(name)\n",
        f"        if {condition}: continue\n        groups[role].names.append(name)\n",
    )


case(
    "OP3",
    "OPT-WIRING",
    "optimizer",
    {"code": _skip('"mlp" in name')},
    {"code": _skip('name == "layers.1.attention.k_norm.weight"')},
)
case(
    "OP3b",
    "OPT-WIRING",
    "optimizer|gradient",
    {"run": lambda p: on_model(p, lambda m: m.layers[0].requires_grad_(False))},
    {"run": lambda p: on_model(p, lambda m: m.norm.requires_grad_(False))},
)


def _clip(new: str) -> Plant:
    def plant(p: Any) -> None:
        from umsicht.train import Trainer

        rewrite(Trainer, "_step", "self.settings.optimizer.clip_norm)", new)

    return plant


case(
    "OP4",
    "OPT-WIRING",
    "optimizer",
    {"code": _clip("(self.settings.optimizer.clip_norm or 1.0) / 1024)")},
    {"code": _clip("(self.settings.optimizer.clip_norm or 1.0) * 0.98)")},
)
case(
    "OP5",
    "OPT-WIRING",
    "optimizer",
    {"code": _clip("None)")},
    {"code": _clip("(self.settings.optimizer.clip_norm or 1.0) * 1.03)")},
)


def _factor(new: str) -> Plant:
    def plant(p: Any) -> None:
        from umsicht.train.schedule import Schedule

        rewrite(
            Schedule, "factor", "warmup = self.warmup_steps\n", f"warmup = self.warmup_steps\n        {new}\n"
        )

    return plant


case(
    "OP8",
    "OPT-WIRING",
    "schedule|optimizer",
    {"code": _factor("step = step * 2")},
    {"code": _factor("step = step + step // 50")},
)
case(
    "OP9",
    "OPT-WIRING NUMERIC",
    "schedule|optimizer|training step",
    {"code": _factor("if step > 300: return 20.0")},
    {"code": _factor("if step == 3: return 0.5")},
)
