"""`umsicht train`: train a recipe's model, or go on with a run."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from umsicht.cli.options import Acknowledged, Overrides, Waived
from umsicht.cli.output import TerminalProgress, print_finding, print_json
from umsicht.cli.projects import find_run, project_of
from umsicht.cli.walks import acknowledged, exit_code, open_walk, show_gate
from umsicht.findings import UserError
from umsicht.record.project import Project
from umsicht.record.run import Run
from umsicht.survive.writable import refuse_unwritable
from umsicht.words import t

if TYPE_CHECKING:
    from umsicht.pipeline.walk import Walk
    from umsicht.recipe.train import PhaseSettings


def train(
    recipe: Annotated[Path | None, Parameter(help="The recipe file; not needed with --resume.")] = None,
    *,
    resume: bool = False,
    run: str = "",
    out: Path | None = None,
    set_: Overrides | None = None,
    waive: Waived | None = None,
    acknowledge: Acknowledged | None = None,
    because: str = "",
    nproc_per_node: int | None = None,
    max_restarts: int = 100,
    step_timeout: float = 300.0,
    nnodes: str = "",
    address: str = "",
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
    acknowledge
        Go on with a run that a guard stopped for this finding; needs --because with what was found and the one thing changed.
    because
        The written reason for --waive or --acknowledge; it stays in the record.
    nproc_per_node
        Train in this many processes under a supervisor, which restarts them from the last whole checkpoint when one falls or hangs.
    max_restarts
        With --nproc-per-node: restarts after which the job is given up.
    step_timeout
        With --nproc-per-node: seconds without a sign of life after which a process counts as hanging.
    nnodes
        With --nproc-per-node, on several machines that see the project's folder: how many take part, or at least:most (2:4).
    address
        With --nnodes: the address at which the other machines reach this one.
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
    walk.acknowledged = acknowledged(acknowledge, because)
    if dry_run:
        return show_plan(walk, json=json)
    if "UMSICHT_RUN" in os.environ:
        return train_rank(walk)
    refuse_unwritable(walk.project.folder)
    if nproc_per_node is not None:
        return supervise_walk(walk, Launch(nproc_per_node, max_restarts, step_timeout, nnodes, address))
    return train_walk(walk, json=json)


def train_rank(walk: Walk) -> int:
    """A process that a supervisor started: data and gate are behind it."""
    from umsicht.survive.worker import attended, supervised_run

    with attended():
        from umsicht.pipeline.ranks import train_rank

        folder = supervised_run()
        assert folder is not None
        return exit_code(train_rank(walk, Run.open(folder)))


@dataclass(frozen=True)
class Launch:
    """The launcher's own options."""

    ranks: int
    max_restarts: int
    step_timeout_s: float
    nodes: str
    address: str

    def checked(self) -> tuple[int, int]:
        """Least and most machines. Raises UserError where an option makes no sense."""
        if self.ranks < 1 or self.max_restarts < 0 or self.step_timeout_s <= 0:
            raise UserError(t("survive.ranks_positive"), fix=t("survive.ranks_positive_fix"))
        least, _, most = (self.nodes or "1").partition(":")
        sizes = (least, most or least)
        if not all(size.isdigit() for size in sizes) or not 1 <= int(sizes[0]) <= int(sizes[1]):
            raise UserError(t("survive.nodes", text=self.nodes), fix=t("survive.nodes_fix"))
        return int(sizes[0]), int(sizes[1])


def supervise_walk(walk: Walk, launch: Launch) -> int:
    """The data half and the gate here, the training in ranks of its own."""
    from umsicht.pipeline import GateClosedError
    from umsicht.survive.launch import supervise
    from umsicht.survive.survival import EVENTS

    least, most = launch.checked()
    try:
        record = made_once(walk, alone=most == 1)
    except GateClosedError as shut:
        return show_gate(shut)
    command = [sys.executable, "-m", "umsicht", *rank_arguments(sys.argv[1:])]
    walk.progress.note(t("survive.starts", ranks=launch.ranks, path=record.folder / EVENTS))
    return supervise(
        command,
        record.folder,
        ranks=launch.ranks,
        max_restarts=launch.max_restarts,
        step_timeout_s=launch.step_timeout_s,
        hosts=None if most == 1 else (least, most),
        address=launch.address,
        say=walk.progress.note,
    )


def made_once(walk: Walk, *, alone: bool) -> Run:
    """Data made, gate passed, run opened; of several machines one works while the others wait for it."""
    from umsicht.pipeline.checks import gate, record_of
    from umsicht.pipeline.ranks import record_findings
    from umsicht.pipeline.run import prepare
    from umsicht.pipeline.training import open_run
    from umsicht.record.lock import FolderLock, waiting

    with nullcontext() if alone else waiting(FolderLock(walk.project.folder / "prepare.lock")):
        material = prepare(walk)
        gate(material)
        record = open_run(material, extra=record_of(walk))
        record_findings(walk, record)
    return record


def rank_arguments(arguments: list[str]) -> list[str]:
    """The arguments of a rank: the launcher's own, without those that are the launcher's alone."""
    alone = ("--nproc-per-node", "--max-restarts", "--step-timeout", "--nnodes", "--address")
    kept, skip = [], False
    for argument in arguments:
        if skip:
            skip = False
        elif argument in alone:
            skip = True
        elif not argument.startswith(tuple(f"{name}=" for name in alone)):
            kept.append(argument)
    return kept


def train_walk(walk: Walk, *, json: bool) -> int:
    """The data half, the gate, the training."""
    from umsicht.pipeline import GateClosedError
    from umsicht.pipeline.ranks import train_run
    from umsicht.pipeline.run import prepared
    from umsicht.train.ranks import FirstRankFailedError, leave

    try:
        material, record = prepared(walk)
    except GateClosedError as shut:
        return show_gate(shut, json=json)
    except FirstRankFailedError:
        return 1
    outcome = train_run(material, record)
    leave()
    if os.environ.get("RANK", "0") != "0":
        return exit_code(outcome)
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
    return exit_code(outcome)


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
    for line in batch_stages(settings.phases, length):
        print(line)
    print_json(settings.plain())
    return 0


def batch_stages(phases: PhaseSettings, steps: int) -> list[str]:
    """How the batch grows, a line a stage."""
    from umsicht.train.budget import growth_of

    growth = growth_of(phases, steps)
    if growth is None:
        return []
    starts = growth.starts
    parts = [growth.first >> number for number in range(len(starts))]
    return [
        t("train.batch_stage", step=start + 1, part=part)
        if part > 1
        else t("train.batch_whole", step=start + 1)
        for start, part in zip(starts, parts, strict=True)
    ]


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
