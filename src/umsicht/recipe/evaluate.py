"""Recipe section `evaluate`."""

from __future__ import annotations

from umsicht.recipe.base import Section


class EvaluateSettings(Section):
    """Baselines, samples, tasks."""
