"""A real run with every monitor on, for healthy pipelines and for faults that begin in the middle of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from umsicht.findings import Finding
from umsicht.guard import monitors
from umsicht.recipe.train import BudgetSettings, CheckpointSettings
from umsicht.record import Run
from umsicht.train import Trainer
from umsicht.train.hooks import Hook, StopRun, View


class _Halt(Hook):
    """Ends a run before `step` moves the weights, so that it can be gone on with."""

    name = "bench-halt"

    def __init__(self, step: int) -> None:
        self.step = step

    def after_backward(self, view: View) -> None:
        """A note is no alarm."""
        if view.step == self.step:
            raise StopRun(Finding("RECORD/rehearsal-over", "note", "run"))


def train(pipeline: Any, folder: Path, steps: int, halts: tuple[int, ...] = ()) -> dict[str, Any]:
    """Train `steps` steps, in several parts where it is to halt in between; returns the run's findings, its length, how it ended, and the model."""
    recipe = pipeline.recipe
    settings = recipe.train.model_copy(
        update={
            "budget": BudgetSettings(steps=steps),
            "checkpoint": CheckpointSettings(every_minutes=None, asynchronous=False, keep_best={}),
        }
    )
    run = Run.create(folder / "run", {"name": "watched", "recipe": {}, "inputs": {}, "seed": 0})
    for halt in (*halts, 0):
        source = pipeline.make_source(steps)
        hooks = monitors(
            recipe.check,
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
            hooks=[*hooks, *([_Halt(halt)] if halt else [])],
            seed=recipe.seed,
            objective=pipeline.objective,
        )
        outcome = trainer.fit()
    return {
        "findings": run.findings(),
        "steps": outcome.step,
        "reason": outcome.reason,
        "model": trainer.model,
    }
