"""`umsicht train`: train a recipe's model, or go on with a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from umsicht.cli.options import Overrides, Waived
from umsicht.cli.output import TerminalProgress, print_finding, print_json
from umsicht.cli.projects import find_run, project_of
from umsicht.cli.run import open_walk, show_gate
from umsicht.findings import UserError
from umsicht.record.project import Project
from umsicht.record.run import Run
from umsicht.words import t

if TYPE_CHECKING:
    from umsicht.pipeline.walk import Walk

EXIT = {"finished": 0, "early-stopped": 0, "stopped-by-guard": 3, "interrupted": 130}


def train(
    recipe: Annotated[Path | None, Parameter(help="The recipe file; not needed with --resume.")] = None,
    *,
    resume: bool = False,
    run: str = "",
    out: Path | None = None,
    set_: Overrides | None = None,
    waive: Waived | None = None,
    because: str = "",
    dry_run: bool = False,
    json: bool = False,
) -> int:
    """Train a recipe's model without the scores and report of `umsicht run`. Data that exist are not made again; a run begun goes on.

    Parameters
    ----------
    resume
        Go on with the newest unfinished run of the project in the current folder.
    run
        With --resume: this run, by name or folder.
    out
        Folder of the project; by default one named after the recipe, in the current folder.
    set_
        Override a setting: --set train.budget.steps=500 (as often as needed).
    waive
        Pass a closed gate for this finding; needs --because.
    because
        The written reason for --waive; it stays in the record.
    dry_run
        Draw the learning-rate schedule, print the settings and stop.
    json
        Print the result as JSON.
    """
    if resume or run:
        walk = walk_of(unfinished(run), overrides=set_ or [])
    elif recipe is None:
        raise UserError(t("train.no_recipe"), fix=t("train.no_recipe_fix"))
    else:
        walk = open_walk(recipe, out=out, overrides=set_ or [], waive=waive or [], because=because)
    if dry_run:
        return show_plan(walk, json=json)
    return train_walk(walk, json=json)


def train_walk(walk: Walk, *, json: bool) -> int:
    """The data half, the gate, the training."""
    from umsicht.pipeline import GateClosedError
    from umsicht.pipeline.checks import gate, record_of
    from umsicht.pipeline.run import prepare, train_run
    from umsicht.pipeline.training import open_run

    try:
        material = prepare(walk)
        gate(material)
    except GateClosedError as shut:
        return show_gate(shut, json=json)
    record = open_run(material, extra=record_of(walk))
    outcome = train_run(material, record)
    if json:
        print_json({"run": str(record.folder), "outcome": {"reason": outcome.reason, "step": outcome.step}})
    elif outcome.finding is not None:
        print_finding(outcome.finding)
    else:
        print(
            t(
                "train.outcome",
                reason=t(f"train.reason_{outcome.reason}"),
                step=outcome.step,
                folder=record.folder,
            )
        )
    return EXIT[outcome.reason]


def show_plan(walk: Walk, *, json: bool) -> int:
    """Settings and the whole schedule, drawn before anything is computed."""
    settings = walk.recipe.train
    if json:
        print_json(settings.plain())
        return 0
    from umsicht.train.schedule import Schedule

    length = settings.budget.steps or 1000
    schedule = Schedule(settings.schedule, length)
    print(
        t(
            "train.schedule",
            shape=settings.schedule.shape,
            warmup=schedule.warmup_steps,
            decay=schedule.decay_start,
            steps=length,
        )
    )
    print(schedule.draw())
    print_json(settings.plain())
    return 0


def unfinished(name: str) -> Run:
    """The run to go on with: the one named, else the newest that has not ended. Raises UserError where there is none."""
    if name:
        return find_run(name)
    for run in project_of(Path.cwd()).runs():
        outcome: dict[str, Any] = run.manifest.get("outcome") or {}
        if outcome.get("reason") not in ("finished", "early-stopped"):
            return run
    raise UserError(t("train.nothing_to_resume"), where=str(Path.cwd()), fix=t("train.nothing_to_resume_fix"))


def walk_of(run: Run, overrides: list[str]) -> Walk:
    """The walk that made a run: its recorded recipe, in its project."""
    from umsicht.pipeline.walk import Walk
    from umsicht.recipe import Recipe
    from umsicht.recipe.load import recipe_from_text

    if overrides:
        import orjson

        recipe = recipe_from_text(orjson.dumps(run.manifest["recipe"]).decode(), str(run.folder), overrides)
    else:
        recipe = Recipe.model_validate(run.manifest["recipe"])
    project = Project(run.folder.parent.parent)
    return Walk(recipe, project, root=project.folder, progress=TerminalProgress())
