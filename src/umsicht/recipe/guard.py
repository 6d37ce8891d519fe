"""Recipe section `check`: the contracts before the run and the monitors during it."""

from __future__ import annotations

from umsicht.recipe.base import Section


class GuardSettings(Section):
    """What is checked and what an alarm does."""
