"""`umsicht experiment`: change one cause at a time and keep the tree."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import cyclopts
from cyclopts import Parameter
from rich.text import Text
from rich.tree import Tree

from umsicht.cli.output import console, print_json
from umsicht.cli.projects import existing, find_run, project_of
from umsicht.diagnose.experiment import Node
from umsicht.words import t

experiment = cyclopts.App(name="experiment", help=t("cli.verb.experiment"))


@experiment.command
def new(
    *,
    from_: Annotated[str, Parameter(name="--from")],
    set_: Annotated[list[str], Parameter(name="--set", negative=(), allow_leading_hyphen=True)],
    because: str = "",
    name: str = "",
    run: bool = False,
    json: bool = False,
) -> int:
    """Plan a child of a run with one change; its recipe and reason are written before anything is trained.

    Parameters
    ----------
    from_
        The parent run: its folder or name.
    set_
        The one change: --set train.optimizer.matrix_rate=0.03. More than one needs --because and is marked as confounded.
    because
        Why more than one setting changes, or what you expect.
    name
        Name of the experiment; by default made from the change.
    run
        Run it at once.
    json
        Print JSON.
    """
    from umsicht.diagnose.experiment import new as plan
    from umsicht.diagnose.experiment import project_folder

    parent = find_run(from_)
    made = plan(parent, set_, because=because, name=name)
    if run:
        from umsicht.cli.run import run as run_recipe

        return run_recipe(made.recipe_path, out=project_folder(parent), json=json)
    if json:
        print_json(made.to_dict())
        return 0
    for key, (old, now) in made.changes.items():
        console().print(Text(f"{key}: {old} → {now}"))
    if made.confounded:
        console().print(Text(t("diagnose.experiment.confounded", n=len(made.changes)), style="yellow"))
    command = f"umsicht run {made.recipe_path} --out {project_folder(parent)}"
    console().print(Text(t("diagnose.experiment.written", path=made.recipe_path, command=command)))
    return 0


@experiment.command(name="tree")
def show_tree(folder: Path = Path(), *, metric: str = "val/all/bpb", json: bool = False) -> int:
    """The tree of runs and planned experiments, each with its change and its difference to the parent.

    Parameters
    ----------
    folder
        The project's folder.
    metric
        The figure that is compared.
    json
        Print JSON.
    """
    from umsicht.diagnose.experiment import tree

    roots = tree(project_of(existing(folder)).folder, metric)
    if json:
        print_json([root.to_dict() for root in roots])
        return 0
    if not roots:
        console().print(t("diagnose.experiment.none"))
    for root in roots:
        branch = Tree(_line(root))
        _grow(branch, root)
        console().print(branch)
    return 0


def _grow(branch: Tree, node: Node) -> None:
    for child in node.children:
        _grow(branch.add(_line(child)), child)


def _line(node: Node) -> Text:
    text = Text(node.name, style="bold")
    if node.value is not None:
        text.append(f"  {node.metric} {node.value:.4f}", style="")
    if node.delta is not None:
        text.append(f"  ({node.delta:+.4f})", style="green" if node.delta < 0 else "red")
    for key, pair in node.changes.items():
        old, now = (pair[0], pair[1]) if isinstance(pair, list | tuple) and len(pair) == 2 else ("?", pair)
        text.append(f"  {key}: {old} → {now}", style="cyan")
    if node.confounded:
        text.append(f"  [{t('diagnose.experiment.mark')}: {node.because}]", style="yellow")
    text.append(f"  {node.state}", style="dim")
    return text
