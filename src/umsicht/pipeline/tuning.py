"""After the base is trained and evaluated: the recipe's stages of fine-tuning, each from the one before."""

from __future__ import annotations

from umsicht.finetune import StageResult, run_stage
from umsicht.pipeline import after
from umsicht.pipeline.walk import Walk
from umsicht.record import Run
from umsicht.words import t


def finetune(walk: Walk, base: Run) -> list[StageResult]:
    """Run the stages in order; a finished one is not trained again. Ends early where a stage is interrupted or stopped.

    Raises UserError (exit code 3) where a stage's gate stays shut: the base not evaluated, or too poor.
    """
    settings = walk.recipe.finetune
    results: list[StageResult] = []
    run = base
    for stage in settings.stages:
        walk.progress.note(t("finetune.stage", name=stage.title, method=stage.method, base=run.name))
        result = run_stage(
            stage,
            run,
            root=walk.root,
            waivers=walk.waivers,
            forgetting_limit=settings.forgetting_limit,
            progress=walk.progress,
        )
        results.append(result)
        if result.outcome.reason not in ("finished", "early-stopped"):
            break
        after.write_report(result.run)
        run = result.next_base
    return results
