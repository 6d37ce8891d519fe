"""Loading a recipe: YAML with presets and overrides; every mistake is answered with file, line and a suggestion."""

from __future__ import annotations

import difflib
import io
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError

from umsicht.findings.errors import UserError
from umsicht.recipe.base import Section
from umsicht.recipe.schema import PRESETS, Recipe
from umsicht.recipe.trouble import message
from umsicht.words import t

AnySection = TypeVar("AnySection", bound=Section)

ONE_OF = {"budget"}
"""Sections of which one key is given: naming one takes the place of what a preset had there."""


def load_recipe(path: Path | str, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe file, lay it over its preset, apply `a.b=c` overrides.

    Raises UserError with file:line for unreadable YAML, unknown keys (with "did you mean") and values out of range.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(t("recipe.missing", path=path), fix=t("recipe.missing.fix"))
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(t("recipe.unreadable", path=path), where=str(error)) from None
    return recipe_from_text(text, str(path), overrides)


def recipe_from_text(text: str, origin: str, overrides: Sequence[str] = ()) -> Recipe:
    """As `load_recipe`, for YAML text; `origin` is how messages call it."""
    tree = _parse(text, origin)
    if not isinstance(tree, CommentedMap):
        raise UserError(t("recipe.not_a_mapping"), where=origin, fix=t("recipe.missing.fix"))
    preset = tree.pop("preset", None)
    base = _preset(preset, origin) if preset is not None else {}
    merged = _merge(base, tree)
    for override in overrides:
        _apply(merged, override)
    return _validated(Recipe, merged, tree, origin)


def section_from(
    model: type[AnySection], plain: Mapping[str, Any], overrides: Sequence[str] = ()
) -> AnySection:
    """One section without a file, from plain values and `a.b=c` overrides. Raises UserError as `load_recipe` does."""
    tree = _plain(plain)
    for override in overrides:
        _apply(tree, override)
    return _validated(model, tree, CommentedMap(), "--set")


def _validated(model: type[AnySection], plain: Any, tree: CommentedMap, origin: str) -> AnySection:
    try:
        return model.model_validate(plain)
    except ValidationError as error:
        raise _explain(error, model, tree, origin) from None


def _parse(text: str, origin: str) -> Any:
    try:
        return YAML(typ="rt").load(io.StringIO(text))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"{origin}:{mark.line + 1}" if mark else origin
        raise UserError(
            t("recipe.yaml"),
            where=line,
            why=str(error.problem or error.context or ""),
            fix=t("recipe.yaml.fix"),
        ) from None
    except Exception as error:  # ruamel raises bare ValueErrors on some broken scalars
        raise UserError(t("recipe.yaml"), where=origin, why=str(error), fix=t("recipe.yaml.fix")) from None


def preset_text(name: str) -> str:
    """The YAML of a preset."""
    return (resources.files("umsicht.recipe") / "presets" / f"{name}.yaml").read_text(encoding="utf-8")


def _preset(name: Any, origin: str) -> dict[str, Any]:
    if name not in PRESETS:
        near = difflib.get_close_matches(str(name), PRESETS, 1)
        raise UserError(
            t("recipe.preset", name=name),
            where=origin,
            fix=t("recipe.did_you_mean", name=near[0])
            if near
            else t("recipe.preset.fix", names=", ".join(PRESETS)),
        )
    return dict(_parse(preset_text(name), f"preset {name}") or {})


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` laid on `base`, mapping by mapping; lists are replaced, not joined."""
    merged = dict(base)
    for key, value in over.items():
        if isinstance(value, Mapping) and isinstance(merged.get(key), Mapping) and key not in ONE_OF:
            merged[key] = _merge(merged[key], value)
        elif isinstance(value, Mapping):
            merged[key] = _merge({}, value)
        else:
            merged[key] = _plain(value)
    return merged


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | CommentedSeq):
        return [_plain(inner) for inner in value]
    return value


def _apply(tree: dict[str, Any], override: str) -> None:
    key, equals, raw = override.partition("=")
    if not equals or not key.strip():
        raise UserError(t("recipe.override", text=override), fix=t("recipe.override.fix"))
    value = _plain(_parse(raw, f"--set {key}")) if raw.strip() else ""
    *parents, last = key.strip().split(".")
    node = tree
    for name in parents:
        inner = node.get(name)
        if not isinstance(inner, dict):
            inner = node[name] = {}
        node = inner
    if parents and parents[-1] in ONE_OF and value is not None:
        node.clear()
    node[last] = value


def _explain(error: ValidationError, model: type[Section], tree: CommentedMap, origin: str) -> UserError:
    """The first problem of a validation, at its line, with the nearest known key where a key is unknown."""
    first = error.errors(include_url=False)[0]
    location = [part for part in first["loc"] if not _is_tag(part)]
    dotted = ".".join(str(part) for part in location)
    where = f"{origin}:{line}" if (line := _line(tree, location)) else origin
    others = len(error.errors()) - 1
    why = t("recipe.more", count=others) if others else ""
    if first["type"] == "extra_forbidden":
        names = _known_keys(model, location[:-1])
        near = difflib.get_close_matches(str(location[-1]), names, 1, 0.6)
        fix = (
            t("recipe.did_you_mean", name=near[0])
            if near
            else t("recipe.known", names=", ".join(sorted(names)))
        )
        return UserError(t("recipe.unknown_key", key=dotted), where=where, why=why, fix=fix)
    return UserError(
        t("recipe.bad_value", key=dotted, message=message(first)),
        where=where,
        why=why,
        fix=t("recipe.bad_value.fix"),
    )


def _is_tag(part: Any) -> bool:
    """Pydantic puts the chosen member of a union into the location; it is no key of the file."""
    return isinstance(part, str) and (
        part.endswith("Settings") or "[" in part or part.startswith("function-")
    )


def _line(tree: Any, location: Sequence[Any]) -> int | None:
    """1-based line of a key; of the nearest parent where the key itself is not in the file."""
    line = None
    node = tree
    for part in location:
        try:
            if isinstance(node, CommentedMap) and part in node:
                line = node.lc.key(part)[0] + 1
                node = node[part]
            elif isinstance(node, CommentedSeq) and isinstance(part, int) and part < len(node):
                line = node.lc.item(part)[0] + 1
                node = node[part]
            else:
                return line
        except (KeyError, AttributeError, TypeError):
            return line
    return line


def _known_keys(model: type[Section], location: Sequence[Any]) -> list[str]:
    """Field names of the section at `location` below `model`; of all its possible models where it is a union."""
    models: list[type[BaseModel]] = [model]
    for part in location:
        if isinstance(part, int):
            continue
        nested: list[type[BaseModel]] = []
        for one in models:
            field = one.model_fields.get(str(part))
            if field is not None:
                nested += models_in(field.annotation)
        models = nested or models
    names = {name for one in models for name in one.model_fields}
    return sorted(names | ({"preset"} if models == [Recipe] else set()))


def models_in(annotation: Any) -> list[type[BaseModel]]:
    """The sections that a field may hold, through unions, lists and mappings."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in models_in(argument)]
