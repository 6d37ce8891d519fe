"""Recipe section `tokenizer`."""

from __future__ import annotations

from umsicht.recipe.base import Section


class TokenizerSettings(Section):
    """How the vocabulary is made."""

    vocab_size: int = 4096
    """Ids including special tokens."""
