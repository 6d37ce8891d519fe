"""What the run will take, said before it begins; a budget that cannot pay for it shuts a gate."""

from __future__ import annotations

from typing import Any

from umsicht.findings import Finding
from umsicht.pipeline.training import Material, n_parameters
from umsicht.pipeline.walk import Walk
from umsicht.plan import measure
from umsicht.plan.stage import PlanInputs, build
from umsicht.record import Artifact
from umsicht.words import numerals, t


def plan(material: Material) -> Artifact:
    """Measure a few steps on this machine, add up, print, and decide whether budget, data and size fit together."""
    walk = material.walk
    _say_sizes(material)
    inputs = plan_inputs(material, _measurement(walk, measure_inputs(material)))
    artifact = build(walk.recipe.plan, inputs, progress=walk.progress)
    said = artifact.report
    walk.progress.note(
        t(
            "pipeline.length",
            steps=numerals(f"{said['steps']:,}"),
            tokens=numerals(f"{said['tokens']:,}"),
            available=numerals(f"{said['usable_tokens']:,}"),
            minutes=numerals(f"{said['predicted']['training_s'] / 60:.1f}"),
        )
    )
    walk.gate("plan", (Finding.from_dict(plain) for plain in said["findings"]))
    return artifact


def measure_inputs(material: Material) -> measure.MeasureInputs:
    """What a measurement of the recipe's family reads."""
    walk = material.walk
    recipe = walk.recipe
    return measure.MeasureInputs(
        walk.project.store,
        material.made.tokens,
        recipe.model,
        recipe.train,
        recipe.tokens,
        recipe.seed,
        recipe.name,
    )


def plan_inputs(material: Material, measurement: Artifact | None) -> PlanInputs:
    """What a plan of the recipe reads."""
    walk = material.walk
    return PlanInputs(
        walk.project.store,
        tokens=material.made.tokens,
        config=material.config,
        train=walk.recipe.train,
        mix=walk.recipe.tokens,
        steps=material.planned_steps(),
        seed=walk.recipe.seed,
        name=walk.recipe.name,
        measurement=measurement,
    )


def _measurement(walk: Walk, family: measure.MeasureInputs) -> Artifact | None:
    """The family's measurement: made here where the recipe gives it time, else the one that exists."""
    seconds = walk.recipe.plan.measure_seconds
    return measure.measure(family, seconds, progress=walk.progress) if seconds else measure.find(family)


def foreseen(planned: Artifact) -> dict[str, Any]:
    """What a run's manifest keeps of its plan: its id, and the loss it foresaw where the family was measured."""
    loss = planned.report["predicted"].get("loss")
    return {"plan": planned.id, **({"predicted_loss": loss["value"]} if loss else {})}


def _say_sizes(material: Material) -> None:
    sizes = n_parameters(material)
    shown = ", ".join(
        f"{name} {value}"
        for name, value, derived in material.describe_model()
        if derived and value is not None
    )
    whole, body = (numerals(f"{sizes[name]:,}") for name in ("all", "body"))
    material.walk.progress.note(t("pipeline.plan", parameters=whole, body=body, sizes=shown))
