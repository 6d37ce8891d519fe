"""What every section of a recipe is: strict, frozen, and each field described (the description is its line in the reference)."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A part of a recipe: unknown keys and numbers that are none (NaN, infinity) are refused, values cannot be changed after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)

    def plain(self) -> dict[str, Any]:
        """As plain JSON, every default filled in: what enters an id."""
        return self.model_dump(mode="json")
