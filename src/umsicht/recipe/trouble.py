"""What is wrong with a value of a recipe, in the reader's language instead of the validator's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from umsicht.words import t

KINDS = {
    "int_type": "whole",
    "int_parsing": "whole",
    "int_from_float": "whole",
    "float_type": "number",
    "float_parsing": "number",
    "finite_number": "number",
    "bool_type": "yes_no",
    "bool_parsing": "yes_no",
    "string_type": "text",
    "list_type": "list",
    "tuple_type": "list",
    "dict_type": "section",
    "model_type": "section",
    "model_attributes_type": "section",
    "missing": "missing",
    "greater_than": "greater_than",
    "greater_than_equal": "greater_than_equal",
    "less_than": "less_than",
    "less_than_equal": "less_than_equal",
}
"""The validator's types of errors, and which sentence says them."""


def message(error: Mapping[str, Any]) -> str:
    """One error of a validation as half a sentence; the validator's own words where it is of a kind that has no sentence."""
    kind, context = error["type"], error.get("ctx", {})
    if kind == "value_error":
        return str(context.get("error", error["msg"]))
    if kind in KINDS:
        return t(f"recipe.value.{KINDS[kind]}", **context)
    if kind == "literal_error":
        return t(
            "recipe.value.choice",
            expected=str(context["expected"]).replace(" or ", t("recipe.value.or")).replace("'", "`"),
        )
    if kind == "string_pattern_mismatch":
        return t("recipe.value.pattern", pattern=context["pattern"])
    return str(error["msg"])
