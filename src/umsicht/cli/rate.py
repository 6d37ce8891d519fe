"""`umsicht rate`: blind rating rounds by people: plan, lay out, rate in the terminal or in a file, score."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import cyclopts

from umsicht.cli.options import require
from umsicht.cli.output import print_finding, print_json, print_table
from umsicht.cli.projects import find_run
from umsicht.cli.rate_result import print_result
from umsicht.cli.rate_terminal import rate_in_terminal
from umsicht.findings import UserError
from umsicht.ratings import (
    Design,
    Output,
    Plan,
    Round,
    create,
    default,
    export,
    match,
    of_file,
    of_round,
    of_run,
    pairs_needed,
    plan,
    read_back,
    score,
)
from umsicht.record.run import Run
from umsicht.words import language, t

rate = cyclopts.App(name="rate", help=t("cli.verb.rate"))


@rate.command(name="plan")
def plan_(
    *,
    pairs: int | None = None,
    preference: float | None = None,
    ties: float = 0.2,
    power: float = 0.8,
    json: bool = False,
) -> int:
    """Say what a number of pairs can show, or how many pairs a preference needs, before anybody rates anything.

    Parameters
    ----------
    pairs
        Number of prompts that two systems answered.
    preference
        The preference to be shown, for example 0.65.
    ties
        Expected share of undecided pairs.
    power
        Probability to find the preference if it is there.
    json
        Print JSON.
    """
    require(preference is None or 0.5 < preference <= 1, "--preference", preference, "0.5 < X ≤ 1")
    require(0 <= ties < 1, "--ties", ties, "0 ≤ X < 1")
    require(0 < power < 1, "--power", power, "0 < X < 1")
    needed = pairs_needed(preference, ties=ties, wanted_power=power) if preference is not None else None
    made = plan(pairs if pairs is not None else needed or 50, ties=ties, wanted_power=power)
    if json:
        print_json({**vars(made), "odds": made.odds, "pairs_needed": needed})
        return 0
    if needed is not None and preference is not None:
        odds = f"{round(100 * preference)}/{round(100 - 100 * preference)}"
        print(t("ratings.plan.needed", odds=odds, power=f"{power:.0%}", pairs=needed))
    if pairs is not None or needed is None:
        print(_sentence(made))
    return 0


def _sentence(made: Plan) -> str:
    key = "ratings.plan.nothing" if made.detectable is None else "ratings.plan.pairs"
    return t(
        key,
        pairs=made.pairs,
        ties=f"{made.ties:.0%}",
        odds=made.odds,
        power=f"{made.power:.0%}",
        significance=made.significance,
    )


@rate.command
def new(
    *systems: str,
    outputs: Path | None = None,
    name: str = "round-1",
    raters: Annotated[tuple[str, ...], cyclopts.Parameter(consume_multiple=True)] = ("rater-1", "rater-2"),
    kind: Literal["pairwise", "scores"] = "pairwise",
    seed: int | None = None,
    folder: Path | None = None,
) -> int:
    """Lay out a blind round from the outputs of checkpoints: `umsicht rate new RUN@1000 RUN@2000`.

    Parameters
    ----------
    systems
        Runs, each with `@STEP` for older outputs than the last ones.
    outputs
        A JSONL file of outputs instead (system, prompt_id, prompt, text).
    name
        The round's name.
    raters
        Who will rate.
    kind
        `pairwise`: which of two is better; `scores`: 1 to 5 for each criterion.
    seed
        Seed of orders and sides; drawn and kept in the key by default.
    folder
        Where rounds live; `ratings/` in the last run's folder by default.
    """
    material, run = _material(systems, outputs)
    place = folder or (run.folder / "ratings" if run else Path("ratings"))
    rated = match(material) if kind == "pairwise" else material
    one = create(place / name, rated, Design(kind, raters, seed=seed), default(language()))
    planned = next(iter(one.head["planned"].values()))
    print(
        t("ratings.made", name=one.name, items=planned, raters=", ".join(raters), regular=one.head["regular"])
    )
    if kind == "pairwise":
        print(_sentence(plan(len({output.prompt_id for output in material}), ties=0.2)))
    print(t("ratings.made.go", folder=one.folder, rater=raters[0]))
    return 0


def _material(systems: tuple[str, ...], outputs: Path | None) -> tuple[list[Output], Run | None]:
    if outputs is not None:
        return of_file(outputs), None
    found: list[Output] = []
    protocols: dict[str, str] = {}
    run: Run | None = None
    for text in systems:
        name, _, step = text.partition("@")
        run = find_run(name)
        protocol, some = of_run(run, int(step) if step.isdigit() else None)
        protocols[text] = protocol
        found += some
    if len(set(protocols.values())) > 1:
        raise UserError(
            t("ratings.protocols_differ"),
            where=", ".join(f"{one}: {protocol}" for one, protocol in protocols.items()),
            why=t("ratings.protocols_differ.why"),
            fix=t("ratings.protocols_differ.fix"),
        )
    return found, run


@rate.command
def do(round: Path, rater: str) -> int:
    """Rate in the terminal; stop whenever you like, the same command goes on.

    Parameters
    ----------
    round
        The round's folder.
    rater
        Your name in it.
    """
    one = Round(round)
    items = one.items(rater)
    if not sys.stdin.isatty():
        raise UserError(t("ratings.do.no_terminal"), fix=t("ratings.do.no_terminal.fix"))
    return rate_in_terminal(one, rater, items)


@rate.command(name="export")
def export_(round: Path, rater: str, file: Path) -> int:
    """Write a rater's items to a .csv or .jsonl file, to be filled in anywhere.

    Parameters
    ----------
    round
        The round's folder.
    rater
        Whose items.
    file
        Where to.
    """
    one = Round(round)
    items = export(one, rater, file)
    column = "answer" if one.kind == "pairwise" else ", ".join(c.id for c in one.sheet.criteria)
    print(t("ratings.exported", items=items, path=file, column=column, folder=round))
    return 0


@rate.command(name="import")
def import_(round: Path, file: Path) -> int:
    """Read a filled-in file back. Nothing is recorded unless every line is right.

    Parameters
    ----------
    round
        The round's folder.
    file
        The filled-in .csv or .jsonl file.
    """
    for rater, answers in read_back(Round(round), file).items():
        print(t("ratings.imported", rater=rater, answers=answers))
    return 0


@rate.command(name="list")
def list_(run: str, *, json: bool = False) -> int:
    """List the rounds of a run with how many answers are in.

    Parameters
    ----------
    run
        A run's folder or name.
    json
        Print JSON.
    """
    found = [Round(path.parent) for path in sorted((find_run(run).folder / "ratings").glob("*/round.json"))]
    rows = []
    for one in found:
        given = [sum(pair) for pair in zip(*one.progress().values(), strict=True)]
        state = (
            "scored" if (one.folder / "result.json").exists() else ("complete" if one.is_complete else "open")
        )
        rows.append(
            {"round": one.name, "kind": one.kind, "answers": given[0], "planned": given[1], "state": state}
        )
    if json:
        print_json(rows)
    elif not rows:
        print(t("ratings.list.none"))
    else:
        print_table(
            [t(f"ratings.list.{name}") for name in ("round", "kind", "answers", "state")],
            [
                (
                    r["round"],
                    t(f"ratings.kind.{r['kind']}"),
                    f"{r['answers']}/{r['planned']}",
                    t(f"ratings.state.{r['state']}"),
                )
                for r in rows
            ],
        )
    return 0


@rate.command(name="score")
def score_(round: Path, *, json: bool = False) -> int:
    """Open the key of a complete round and say what the answers show. Exit code 1 where they carry no verdict.

    Parameters
    ----------
    round
        The round's folder.
    json
        Print JSON.
    """
    result = score(Round(round))
    if json:
        print_json(result.to_dict())
    else:
        print_result(result)
    return int(result.decision == "refused")


@rate.command
def metrics(round: Path, *, json: bool = False) -> int:
    """Say which automatic metrics still go with what people preferred, over the checkpoints of a scored round.

    Exit code 1 where a metric no longer does; the finding is recorded in the checkpoints' runs.

    Parameters
    ----------
    round
        The folder of a scored round over at least five checkpoints.
    json
        Print JSON.
    """
    known: dict[str, Run] = {}

    def run_of(name: str) -> Run:
        beside = round.resolve().parents[2] / name
        known.setdefault(name, find_run(beside if (beside / "manifest.json").is_file() else name))
        return known[name]

    found, findings = of_round(round, run_of)
    for run in known.values():
        recorded = {str(f.get("numbers")) for f in run.findings()}
        for finding in findings:
            if str(finding.to_dict()["numbers"]) not in recorded:
                run.add_finding(finding.to_dict())
    if json:
        print_json({"metrics": [c.to_dict() for c in found], "findings": [f.to_dict() for f in findings]})
    else:
        print_table(
            [t(f"ratings.metrics.{name}") for name in ("metric", "correlation", "interval", "checkpoints")],
            [
                (c.metric, f"{c.rho:+.2f}", f"{c.low:+.2f} … {c.high:+.2f}", c.checkpoints)
                for c in sorted(found, key=lambda c: -c.rho)
            ],
        )
        for finding in findings:
            print_finding(finding)
    return int(bool(findings))
