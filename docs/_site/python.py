"""The reference page of the Python names that each package offers, from their signatures and docstrings."""

from __future__ import annotations

import importlib
import inspect
import re
from dataclasses import dataclass
from typing import Any

from _site.house import ORDER

HEAD = (
    "Written from the code: what each package offers. Whoever wants checks in a training loop of their own begins with "
    "[`umsicht.guard`](#guard), whoever wants a log judged with [`umsicht.diagnose`](#diagnose). "
    "`import umsicht` alone loads nothing heavy; what is not named here may change in any version."
)


def offered() -> dict[str, list[str]]:
    """Package → the names that it offers, in the order of the house."""
    rooms = {name: importlib.import_module(f"umsicht.{name}") for name in ORDER if name != "cli"}
    return {name: list(getattr(room, "__all__", ())) for name, room in rooms.items()}


def page() -> str:
    """Every package with its purpose and its names."""
    parts = ["# Python", HEAD]
    for room, names in offered().items():
        if not names:
            continue
        module = importlib.import_module(f"umsicht.{room}")
        parts += [f"## umsicht.{room} {{ #{room} }}", _prose(module)]
        parts += [_entry(name, getattr(module, name)) for name in names]
    return "\n\n".join(parts) + "\n"


def _entry(name: str, thing: Any) -> str:
    """One name: how it is called, what it does, and the methods of a class."""
    if not (inspect.isclass(thing) or inspect.isfunction(thing)):
        return f"### {name}"
    parts = [f"### {name}", f"```python\n{name}{_call(thing)}\n```", _prose(thing)]
    if inspect.isclass(thing):
        methods = [
            f"- `.{key}{_call(value)}`: {_line(value)}"
            for key, value in vars(thing).items()
            if inspect.isfunction(value) and not key.startswith("_") and value.__doc__
        ]
        parts.append("\n".join(methods))
    return "\n\n".join(part for part in parts if part)


@dataclass(frozen=True)
class _Bare:
    """An annotation that prints as it is written."""

    text: str

    def __repr__(self) -> str:
        return self.text


def _call(thing: Any) -> str:
    """The signature, with annotations as they are written."""
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    taken = [each for each in signature.parameters.values() if each.name != "self"]
    bare = [each.replace(annotation=_bare(each.annotation)) for each in taken]
    signature = signature.replace(parameters=bare, return_annotation=_bare(signature.return_annotation))
    return str(signature)


def _bare(annotation: Any) -> Any:
    return _Bare(annotation) if isinstance(annotation, str) else annotation


def _line(thing: Any) -> str:
    return " ".join(_prose(thing).split())


def _prose(thing: Any) -> str:
    """A docstring as Markdown: shapes such as `[batch, seq]` are no links."""
    text = inspect.cleandoc(thing.__doc__ or "")
    pieces = re.split(r"(`[^`]*`)", text)
    return "".join(
        piece if piece.startswith("`") else piece.replace("[", r"\[").replace("<", r"\<") for piece in pieces
    )
