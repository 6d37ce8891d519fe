"""What the run will take, said before it begins."""

from __future__ import annotations

from umsicht.pipeline.training import Material, n_parameters
from umsicht.words import t


def plan(material: Material) -> None:
    """Print the derived sizes and the length of the run."""
    walk = material.walk
    steps = material.planned_steps()
    sizes = n_parameters(material)
    shown = ", ".join(f"{name} {value}" for name, value, derived in material.describe_model() if derived)
    walk.progress.note(
        t("pipeline.plan", parameters=f"{sizes['all']:,}", body=f"{sizes['body']:,}", sizes=shown)
    )
    if steps is not None:
        tokens = steps * walk.recipe.train.global_batch_tokens
        walk.progress.note(
            t(
                "pipeline.length",
                steps=f"{steps:,}",
                tokens=f"{tokens:,}",
                available=f"{material.data.train.n_tokens:,}",
            )
        )
