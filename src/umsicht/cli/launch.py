"""`umsicht launch`: write the job file with which an engine runs a recipe on other machines."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from umsicht.cli.options import Overrides
from umsicht.cli.output import print_json
from umsicht.findings import UserError
from umsicht.recipe import Recipe, load_recipe
from umsicht.record import atomic_write
from umsicht.survive.elsewhere import TARGETS, Engine, Job
from umsicht.words import t


def launch(
    recipe: Path,
    *,
    to: Engine,
    nodes: str = "1",
    nproc_per_node: int | None = None,
    gpus: Annotated[str, Parameter(name="--gpus-per-node")] = "",
    cpus: Annotated[int, Parameter(name="--cpus-per-node")] = 8,
    memory_gb: int = 32,
    hours: float = 24.0,
    image: str = "python:3.12-slim",
    project: str = "",
    set_: Overrides | None = None,
    file: Path | None = None,
    dry_run: bool = False,
    json: bool = False,
) -> int:
    """Write the job file with which Slurm, Kubernetes, SkyPilot or Ray runs a recipe. Nothing is sent anywhere.

    Parameters
    ----------
    recipe
        The recipe file, as the machines of the job see it.
    to
        The engine: slurm, kubernetes, skypilot or ray.
    nodes
        Machines, or at least:most (1:4): with fewer than asked for the job goes on with those that are left.
    nproc_per_node
        Processes on each machine; one for each GPU, or one in all, where not given.
    gpus
        GPUs on each machine, with their kind if it matters: 8 or H100:8.
    cpus
        Processors on each machine.
    memory_gb
        Memory of each machine in GB.
    hours
        Time limit. Two minutes before it the run saves and asks for another turn.
    image
        Container image with Umsicht installed (Kubernetes).
    project
        The project's folder, seen by all machines; /shared/<name> where not given.
    set_
        Override a setting: --set train.budget.steps=500 (as often as needed).
    file
        Where the job file goes; beside the recipe's name in the current folder where not given.
    dry_run
        Print the file and write nothing.
    json
        Print what was written as JSON.
    """
    loaded = load_recipe(recipe, set_ or [])
    job = job_of(
        loaded, recipe, nodes, nproc_per_node, gpus, cpus, memory_gb, hours, image, project, set_ or []
    )
    target = TARGETS[to]
    text = target.render(job)
    if dry_run:
        print(text, end="")
        return 0
    path = file or Path(f"{loaded.name}{target.suffix}")
    atomic_write(path, text)
    submit = target.submit.format(file=path)
    if json:
        print_json({"file": str(path), "submit": submit, "engine": to})
    else:
        print(t("survive.launch_written", file=path, submit=submit))
        if job.nodes > 1:
            print(t("survive.launch_shared", project=job.project))
    return 0


def job_of(
    loaded: Recipe,
    recipe: Path,
    nodes: str,
    ranks: int | None,
    gpus: str,
    cpus: int,
    memory_gb: int,
    hours: float,
    image: str,
    project: str,
    overrides: list[str],
) -> Job:
    """The options as a job. Raises UserError where they make no sense."""
    machines = re.fullmatch(r"(\d+)(?::(\d+))?", nodes)
    least, most = (int(machines[1]), int(machines[2] or machines[1])) if machines else (0, 0)
    if not 1 <= least <= most:
        raise UserError(t("survive.nodes", text=nodes), fix=t("survive.nodes_fix"))
    wanted = re.fullmatch(r"(?:([A-Za-z0-9_.-]+):)?(\d+)", gpus or "0")
    if wanted is None:
        raise UserError(t("survive.gpus", text=gpus), fix="--gpus-per-node H100:8")
    count = int(wanted[2])
    if min(cpus, memory_gb) < 1 or hours <= 0 or (ranks is not None and ranks < 1):
        raise UserError(t("survive.launch_sizes"), fix="--cpus-per-node 8 --memory-gb 32 --hours 24")
    settings: list[Any] = [word for override in overrides for word in ("--set", override)]
    return Job(
        name=loaded.name,
        recipe=str(recipe),
        project=project or f"/shared/{loaded.name}",
        nodes=most,
        least_nodes=least,
        ranks=ranks or count or 1,
        cpus=cpus,
        memory_gb=memory_gb,
        gpus=count,
        gpu=wanted[1] or "",
        hours=hours,
        image=image,
        arguments=tuple(settings),
    )
