"""Recipe section `finetune`."""

from __future__ import annotations

from umsicht.recipe.base import Section


class FinetuneSettings(Section):
    """Stages after pretraining."""
