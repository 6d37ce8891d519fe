"""A real run with every monitor on, for healthy pipelines and for faults that begin in the middle of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from umsicht.guard import monitors
from umsicht.recipe.train import BudgetSettings, CheckpointSettings
from umsicht.record import Run
from umsicht.train import Trainer


def train(pipeline: Any, folder: Path, steps: int) -> dict[str, Any]:
    """Train `steps` steps; returns the run's findings, its length and how it ended."""
    recipe = pipeline.recipe
    settings = recipe.train.model_copy(
        update={
            "budget": BudgetSettings(steps=steps),
            "checkpoint": CheckpointSettings(every_minutes=None, asynchronous=False, keep_best={}),
        }
    )
    run = Run.create(folder / "run", {"name": "watched", "recipe": {}, "inputs": {}, "seed": 0})
    source = pipeline.make_source(steps)
    hooks = monitors(
        recipe.check,
        run=run,
        source=source,
        settings=settings,
        schedule_steps=steps,
        tokenizer=pipeline.tokenizer,
        objective=pipeline.objective,
    )
    trainer = Trainer(
        pipeline.make_model(),
        source,
        settings,
        run,
        hooks=hooks,
        seed=recipe.seed,
        objective=pipeline.objective,
    )
    outcome = trainer.fit()
    return {"findings": run.findings(), "steps": outcome.step, "reason": outcome.reason}
