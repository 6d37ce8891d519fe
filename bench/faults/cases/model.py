"""Faults of model and numerics (MO)."""

from __future__ import annotations

from typing import Any

import torch

from bench.faults import base
from bench.faults.case import Plant, case
from bench.faults.plant import on_model, rewrite
from umsicht.recipe import Recipe


def _mix(new: str) -> Plant:
    def plant(p: Any) -> None:
        from umsicht.model.layers import Attention

        rewrite(Attention, "_mix", "is_causal=is_causal", new)

    return plant


def _dropped() -> Recipe:
    return base.with_dropout(base.recipe())


_SHIFTED = "attn_mask=torch.ones(query.shape[2], key.shape[2], dtype=torch.bool).tril(1)"


def _off_by_one(condition: str) -> Plant:
    def plant(p: Any) -> None:
        from umsicht.model.layers import Attention

        rewrite(
            Attention,
            "_mix",
            "        dropout =",
            f"        if is_causal and {condition}:\n            mask, is_causal = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool).tril(1), False\n        dropout =",
        )

    return plant


case(
    "MO1",
    "LEAK-FUTURE",
    "model",
    {"code": _mix("is_causal=is_causal and dropout == 0.0")},
    {"code": _mix("is_causal=is_causal and (dropout == 0.0 or self.layer == 0)")},
    recipe=_dropped,
)
case(
    "MO2",
    "LEAK-FUTURE",
    "model",
    {"code": _off_by_one("True")},
    {"code": _off_by_one("self.layer == 1 and query.shape[2] > 20")},
)


def _pooled(size: str) -> Plant:
    def plant(p: Any) -> None:
        from umsicht.model.transformer import Block

        rewrite(
            Block,
            "forward",
            "return x + self._drop(self.mlp(self.mlp_norm(x)))",
            f"return x - {size} * x.mean(1, keepdim=True) + self._drop(self.mlp(self.mlp_norm(x)))",
        )

    return plant


case("MO3", "LEAK-FUTURE", "model", {"code": _pooled("1.0")}, {"code": _pooled("0.001")})


def _isolated() -> Recipe:
    settings = base.recipe()
    return settings.model_copy(update={"train": settings.train.model_copy(update={"document_mask": True})})


def _mask(new: str) -> Plant:
    def plant(p: Any) -> None:
        import umsicht.model.transformer as module

        rewrite(module, "document_mask", "same & causal", new)

    return plant


case(
    "MO4",
    "LEAK-DOC",
    "model",
    {"code": _mask("causal[None] | (same & causal)")},
    {
        "code": _mask(
            "(same & causal) | (causal & (torch.arange(seq)[None, :, None] - torch.arange(seq)[None, None, :] == 3))"
        ),
    },
    recipe=_isolated,
)


def _absolute(size: float) -> Plant:
    """A position signal that goes on counting over document edges."""

    def plant(p: Any) -> None:
        from umsicht.model import Transformer

        rewrite(
            Transformer,
            "hidden",
            "        x = self.through(",
            f"        x = x + {size} * torch.sin(positions.float())[None, :, None] * torch.arange(x.shape[-1])[None, None, :] / x.shape[-1]\n        x = self.through(",
        )

    return plant


case(
    "MO5",
    "LEAK-DOC",
    "model",
    {"code": _absolute(1.0)},
    {"code": _absolute(0.02)},
    recipe=_isolated,
)
case(
    "MO9",
    "NUMERIC",
    "model",
    {
        "code": lambda p: _rotary(
            "positions.float()[:, None, :, None] * self.frequencies.float()",
            "positions.bfloat16()[:, None, :, None] * self.frequencies.bfloat16()",
        )
    },
    {
        "code": lambda p: _rotary(
            "positions.float()[:, None, :, None] * self.frequencies.float()",
            "positions.float()[:, None, :, None] * self.frequencies.bfloat16().float()",
        )
    },
)


def _rotary(old: str, new: str) -> None:
    from umsicht.model.layers import Rotary

    rewrite(Rotary, "forward", old, new)


case(
    "MO10",
    "NUMERIC",
    "model",
    {"code": _mix("is_causal=is_causal, scale=1.0")},
    {"code": _mix("is_causal=is_causal, scale=(1.25 if self.layer == 1 else 1.0) / query.shape[-1] ** 0.5")},
)
case(
    "MO11",
    "NUMERIC",
    "initialisation|model",
    {"run": lambda p: on_model(p, lambda m: m.head.weight.normal_(0, 1))},
    {"run": lambda p: on_model(p, lambda m: m.head.weight.normal_(0, 0.25))},
)
case(
    "MO12",
    "NUMERIC LOAD-MAP",
    "initialisation|model",
    {"run": lambda p: on_model(p, lambda m: m.layers[1].attention.q_proj.weight.fill_(1e30))},
    {"run": lambda p: on_model(p, lambda m: m.layers[1].mlp.up_proj.weight.mul_(2.5))},
)
case(
    "MO13",
    "NUMERIC",
    "initialisation|model",
    {"run": lambda p: on_model(p, lambda m: m.embed.weight.mul_(1e-3))},
    {"run": lambda p: on_model(p, lambda m: m.embed.weight[40:44].zero_())},
)


def _always_drop(p: Any) -> None:
    from umsicht.model.transformer import Block

    rewrite(Block, "_drop", "self.training", "True")


def _always_drop_attention(p: Any) -> None:
    from umsicht.model.layers import Attention

    rewrite(
        Attention,
        "_mix",
        "self.config.dropout_attention if self.training else 0.0",
        "self.config.dropout_attention if self.training or self.layer == 1 else 0.0",
    )


case(
    "MO14",
    "EVAL-VALIDITY",
    "model|evaluation",
    {"code": _always_drop},
    {"code": _always_drop_attention},
    recipe=_dropped,
)


def _mode(old: str, new: str) -> Plant:
    def plant(p: Any) -> None:
        import umsicht.score.split as module

        rewrite(module, "score_split", old, new)

    return plant


case(
    "MO15",
    "EVAL-VALIDITY",
    "evaluation",
    {"code": _mode("with evaluating(model):", "model.eval()\n    if True:")},
    {"code": _mode("with evaluating(model):", "with __import__('contextlib').nullcontext():")},
    recipe=_dropped,
)


def _tied() -> Recipe:
    settings = base.recipe()
    return settings.model_copy(update={"model": settings.model.model_copy(update={"tied": True})})


def _untie(p: Any) -> None:
    import umsicht.train.checkpoints as module

    real = module.restore_model

    def restore(model: Any, *rest: Any) -> None:
        real(model, *rest)
        model.head = torch.nn.Linear(model.config.d_model, model.config.vocab_size, bias=False)
        model.head.weight.data.copy_(model.embed.weight.data)

    module.restore_model = restore


case(
    "MO16",
    "LOAD-MAP RESUME-STATE",
    "checkpoint|resume|model",
    {"code": _untie},
    {"code": _untie},
    recipe=_tied,
)
