"""The numbers of a sentence as people read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from umsicht.words import numerals


def written(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Fractions with four digits in the language in force, `?` where there is none; all else as it is."""
    return {key: _one(value) for key, value in numbers.items()}


def _one(value: Any) -> Any:
    return numerals(f"{value:.4g}") if isinstance(value, float) else "?" if value is None else value
