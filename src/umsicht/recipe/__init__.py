"""Recipes: what is wanted. The schema, presets, overrides, and errors that name file and line."""

from umsicht.recipe.base import Section
from umsicht.recipe.load import load_recipe, preset_text, recipe_from_text, section_from
from umsicht.recipe.schema import PRESETS, Recipe, json_schema

__all__ = [
    "PRESETS",
    "Recipe",
    "Section",
    "json_schema",
    "load_recipe",
    "preset_text",
    "recipe_from_text",
    "section_from",
]
