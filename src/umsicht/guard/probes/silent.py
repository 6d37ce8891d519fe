"""A model without dropout, wherever it comes from: a module's rate, its configuration, a call as a function, a number handed to a fused kernel."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
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
def silent(module: nn.Module) -> Iterator[None]:
    """No dropout inside the block: rates of the module and of its parts are zero, calls as a function let everything through."""
    kept: list[tuple[object, str, object]] = []
    for child in module.modules():
        for name, value in list(vars(child).items()):
            quiet = _quiet(child, name, value)
            if quiet is not None:
                kept.append((child, name, value))
                setattr(child, name, quiet)
    try:
        with _FUNCTIONS_OFF:
            yield
    finally:
        for owner, name, value in reversed(kept):
            setattr(owner, name, value)


def _quiet(owner: nn.Module, name: str, value: Any) -> Any:
    """What takes the place of an attribute that says how much is dropped; None for all others."""
    if isinstance(value, float):
        is_rate = (name.lower() == "p" and "Dropout" in type(owner).__name__) or "dropout" in name.lower()
        return 0.0 if is_rate and value > 0 else None
    if name != "config" or not dataclasses.is_dataclass(value) or isinstance(value, type):
        return None
    rates = {
        field.name: 0.0
        for field in dataclasses.fields(value)
        if "dropout" in field.name and isinstance(getattr(value, field.name), float)
    }
    return dataclasses.replace(value, **rates) if any(getattr(value, key) for key in rates) else None


class _FunctionsOff:
    """The functions of torch let everything through and draw no random number.

    The functions themselves are replaced: a mode that listens to calls is off where a checkpointed block is computed again in the backward pass.
    Blocks are counted: of several that are open, the last to end puts the functions back, in whichever order they end.
    """

    def __init__(self) -> None:
        self._open = 0
        self._kept: list[tuple[Any, str, Callable[..., Any]]] = []

    def __enter__(self) -> None:
        self._open += 1
        if self._open > 1:
            return
        self._kept = [
            *((functional, name, getattr(functional, name)) for name in _NAMES),
            (torch, "dropout", torch.dropout),
            (functional, "scaled_dot_product_attention", functional.scaled_dot_product_attention),
        ]
        for owner, name, real in self._kept:
            setattr(owner, name, _whole(real) if "attention" in name else _passing(real))

    def __exit__(self, *_: object) -> None:
        self._open -= 1
        if not self._open:
            for owner, name, real in self._kept:
                setattr(owner, name, real)


_FUNCTIONS_OFF = _FunctionsOff()
