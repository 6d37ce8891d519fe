"""Recipe section `plan`: budget and prices."""

from __future__ import annotations

from umsicht.recipe.base import Section


class PlanSettings(Section):
    """What may be spent."""
