"""What the verbs share about a recipe's walk: opening it, the gate that shut it, how it ended."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from umsicht.cli.output import TerminalProgress, print_finding, print_json
from umsicht.findings import UserError, Waiver, exits
from umsicht.recipe import Recipe, load_recipe
from umsicht.record.progress import QUIET
from umsicht.record.project import Project
from umsicht.words import t

if TYPE_CHECKING:
    from umsicht.pipeline import Walk
    from umsicht.train import Outcome


def open_walk(
    recipe: Path, *, out: Path | None = None, overrides: list[str], waive: list[str], because: str
) -> Walk:
    """Load a recipe and stand in its project's folder."""
    from umsicht.pipeline import Walk, parse_waivers

    loaded = load_recipe(recipe, overrides)
    folder = out or default_folder(recipe, loaded)
    if folder.exists() and not folder.is_dir():
        raise UserError(t("cli.run.out_is_file", path=folder), fix=t("cli.run.out_is_file.fix"))
    return Walk(
        loaded,
        Project(folder),
        root=recipe.resolve().parent,
        progress=TerminalProgress(),
        waivers=parse_waivers(waive, because),
    )


def acknowledged(ids: list[str] | None, because: str) -> tuple[Waiver, ...]:
    """Stops that a person looked into. Raises UserError where the words are missing."""
    if ids and not because.strip():
        raise UserError(t("pipeline.acknowledge_needs_words"), fix=t("pipeline.stopped.fix", id=ids[0]))
    return tuple(Waiver(identity, because.strip()) for identity in ids or ())


def default_folder(recipe: Path, loaded: Recipe) -> Path:
    """A project's own recipe works where it lies; any other writes into a folder named after it, in the current folder."""
    return recipe.parent if recipe.name == "recipe.yaml" else Path.cwd() / loaded.name


def open_quietly(recipe: Path, out: Path | None, json: bool) -> Walk:
    """The recipe's walk; silent where JSON is to be printed."""
    walk = open_walk(recipe, out=out, overrides=[], waive=[], because="")
    if json:
        walk.progress = QUIET
    return walk


def material_of(walk: Walk) -> Any:
    """The data half without baselines: a plan needs no n-grams."""
    from umsicht.pipeline import stages
    from umsicht.pipeline.training import Made, Material

    corpus = stages.corpus(walk)
    vocabulary = stages.tokenizer(walk, corpus)
    ids = stages.tokens(walk, corpus, vocabulary)
    return Material(walk, Made(corpus, vocabulary, ids, corpus))


def show_gate(shut: Any, *, json: bool = False) -> int:
    """Print what shut a gate, and the only way past it; returns the exit code of a shut gate."""
    stopping = shut.decision.stopping
    if json:
        print_json(
            {"gate": shut.decision.gate, "open": False, "stopping": [one.to_dict() for one in stopping]}
        )
        return exits.GUARD
    for finding in stopping:
        print_finding(finding)
    print(t("cli.gate.shut", gate=shut.decision.gate, count=len(stopping)))
    print(t("cli.gate.waive", id=stopping[0].id))
    return exits.GUARD


def exit_code(outcome: Outcome) -> int:
    """How a training tells its end: done, stopped by a guard, interrupted by a person, or saved because it was told to stop."""
    if outcome.reason == "interrupted" and outcome.signal in ("SIGTERM", "SIGUSR1"):
        return exits.SAVED
    ends = {"interrupted": exits.INTERRUPTED, "stopped-by-guard": exits.GUARD}
    return ends.get(outcome.reason, exits.OK)
