"""Recipe section `model`."""

from __future__ import annotations

from umsicht.recipe.base import Section


class ModelSettings(Section):
    """The network: one dial, the rest derived and printed."""
