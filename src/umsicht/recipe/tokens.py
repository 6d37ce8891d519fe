"""Recipe section `tokens`: mix, packing, order."""

from __future__ import annotations

from umsicht.recipe.base import Section


class TokensSettings(Section):
    """How documents become rows."""
