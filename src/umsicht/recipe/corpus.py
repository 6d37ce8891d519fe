"""Recipe section `corpus`: which text, how it is cleaned, what is set aside."""

from __future__ import annotations

from umsicht.recipe.base import Section


class CorpusSettings(Section):
    """Sources and what is done with them."""
