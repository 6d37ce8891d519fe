"""Dropout that no module owns: called as a function, or handed to a fused attention kernel as a number."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn import functional

_NAMES = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
_PLACE = 4
"""Where `scaled_dot_product_attention` takes `dropout_p` without a name."""


def _passing(real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def dropout(input: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        return input

    return dropout


def _whole(real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def attention(*arguments: Any, **keywords: Any) -> Any:
        if len(arguments) > _PLACE:
            arguments = (*arguments[:_PLACE], 0.0, *arguments[_PLACE + 1 :])
        elif "dropout_p" in keywords:
            keywords["dropout_p"] = 0.0
        return real(*arguments, **keywords)

    return attention


@contextmanager
def no_dropout() -> Iterator[None]:
    """Inside the block the functions of torch let everything through and draw no random number.

    The functions themselves are replaced: a mode that listens to calls is off where a checkpointed block is computed again in the backward pass.
    """
    kept = [
        *((functional, name, getattr(functional, name)) for name in _NAMES),
        (torch, "dropout", torch.dropout),
        (functional, "scaled_dot_product_attention", functional.scaled_dot_product_attention),
    ]
    try:
        for owner, name, real in kept:
            setattr(owner, name, _whole(real) if "attention" in name else _passing(real))
        yield
    finally:
        for owner, name, real in kept:
            setattr(owner, name, real)
