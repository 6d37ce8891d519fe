"""`umsicht init`: begin a project."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from umsicht.findings import UserError
from umsicht.recipe import json_schema, preset_text
from umsicht.record.files import atomic_json, atomic_write
from umsicht.words import t

Preset = Literal["tiny", "quickstart", "single-gpu", "multi-gpu"]


def init(folder: Path, *, preset: Preset = "quickstart", copy: bool = False) -> int:
    """Begin a project: write a recipe to start from.

    Parameters
    ----------
    folder
        New folder of the project.
    preset
        Settings to start from.
    copy
        Write every line of the preset into the recipe instead of naming it.
    """
    recipe = folder / "recipe.yaml"
    if recipe.exists():
        raise UserError(t("cli.init.exists", path=recipe), fix=t("cli.init.exists.fix"))
    schema = folder / ".umsicht" / "recipe.schema.json"
    atomic_json(schema, json_schema())
    head = f"# yaml-language-server: $schema={schema.relative_to(folder)}\nname: {_name(folder)}\n"
    body = preset_text(preset) if copy else f"preset: {preset}\n"
    atomic_write(recipe, head + body)
    print(t("cli.init.done", path=recipe))
    return 0


def _name(folder: Path) -> str:
    kept = [
        letter if letter.isalnum() and letter.isascii() else "-" for letter in folder.resolve().name.lower()
    ]
    return "".join(kept).strip("-") or "model"
