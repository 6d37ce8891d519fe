"""The reference page of the recipe, from its pydantic models."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from umsicht.recipe import Recipe, preset_text
from umsicht.recipe.schema import PRESETS


def page() -> str:
    """Every setting: name, type, default, meaning; then the presets."""
    lines = [
        "# Recipe: every setting",
        "",
        (
            "Written from the code. `umsicht explain train.global_batch_tokens` prints one line of it; `umsicht init` writes the JSON schema "
            "beside a new recipe, so that an editor completes keys; `--set section.key=value` overrides a setting. Unknown keys are refused."
        ),
        "",
        "A recipe may begin with `preset: NAME`; its own lines override the preset's.",
        "",
    ]
    for title, model in sections():
        lines += _section(title, model)
    lines += ["## Presets", ""]
    for name in PRESETS:
        lines += [f"### {name}", "", "```yaml", preset_text(name).strip(), "```", ""]
    return "\n".join(lines)


def sections() -> Iterator[tuple[str, type[BaseModel]]]:
    """(dotted name, model) of the recipe and everything inside it; a model used twice comes where it is used first."""
    seen: set[type[BaseModel]] = set()

    def visit(name: str, model: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
        if model in seen:
            return
        seen.add(model)
        yield name, model
        for key, field in model.model_fields.items():
            for inner in models_in(field.annotation):
                yield from visit(f"{name}.{key}" if name else key, inner)

    yield from visit("", Recipe)


def models_in(annotation: Any) -> list[type[BaseModel]]:
    """Sections inside an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in models_in(argument)]


def _section(name: str, model: type[BaseModel]) -> list[str]:
    about = (model.__doc__ or "").strip().split("\n\n")[0].replace("\n", " ")
    lines = [
        f"## {name or 'Top level'}",
        "",
        about,
        "",
        "| setting | type | default | meaning |",
        "|---|---|---|---|",
    ]
    for key, field in model.model_fields.items():
        inner = models_in(field.annotation)
        described = (
            field.description or (inner[0].__doc__ or "").strip().partition("\n")[0]
            if inner
            else field.description or ""
        )
        cells = (
            f"`{key}`",
            kind(field.annotation),
            _default(field, bool(inner)),
            " ".join(described.split()),
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return [*lines, ""]


def kind(annotation: Any) -> str:
    """An annotation in a reader's words."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is type(None):
        return "null"
    if origin is Literal:
        return " · ".join(f"`{value}`" for value in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(kind(argument) for argument in arguments)
    if origin in (list, tuple):
        return f"list of {kind(arguments[0])}"
    if origin is dict:
        return f"mapping to {kind(arguments[1])}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "section"
    names = {int: "integer", float: "number", str: "text", bool: "true or false"}
    return names.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _default(field: FieldInfo, nested: bool) -> str:
    if field.is_required():
        return "**required**"
    value = field.get_default(call_default_factory=True)
    if value is PydanticUndefined or (nested and value is not None):
        return ""
    if isinstance(value, Enum):
        value = value.value
    return "none" if value is None else f"`{json.dumps(value, ensure_ascii=False, default=str)}`"
