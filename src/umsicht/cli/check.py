"""`umsicht check`: the contracts of a recipe, before the long run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from umsicht.cli.options import Overrides
from umsicht.cli.output import print_finding, print_json, print_table
from umsicht.cli.walks import open_walk
from umsicht.words import t


def check(
    recipe: Path,
    *,
    out: Path | None = None,
    set_: Overrides | None = None,
    all_: Annotated[bool, Parameter(name="--all", negative=())] = False,
    only: Annotated[list[str] | None, Parameter(negative=())] = None,
    quick: bool = False,
    show: bool = False,
    json: bool = False,
) -> int:
    """Check everything a run rests on, in the order of the pipeline: text, tokens, targets, model, gradients, optimizer, evaluation, resume.

    Parameters
    ----------
    recipe
        The recipe file.
    out
        Folder of the project; as for `umsicht run`.
    set_
        Override a setting: --set train.budget.steps=500 (as often as needed).
    all_
        Go on after a stage that stops; the first finding is still the cause.
    only
        Names of probes or stages (T7, causal-prefix).
    quick
        Leave out the stability rehearsal and look at fewer batches.
    show
        Print one real batch, decoded, with target and weight at each position.
    json
        Print findings and probes as JSON.
    """
    walk = open_walk(recipe, out=out, overrides=set_ or [], waive=[], because="")
    from umsicht.guard import preflight
    from umsicht.guard.show import batch_table
    from umsicht.pipeline import GateClosedError
    from umsicht.pipeline.checks import inputs_of
    from umsicht.pipeline.run import prepare

    try:
        material = prepare(walk)
    except GateClosedError as shut:
        from umsicht.cli.walks import show_gate

        return show_gate(shut, json=json)
    inputs = inputs_of(material)
    if show:
        print(batch_table(material.source(material.planned_steps()).batch(0), material.tokenizer))
    walk.progress.stage(t("pipeline.checking"))
    report = preflight(inputs, all=all_, only=only or (), quick=quick, progress=walk.progress)
    walk.progress.close()
    if json:
        print_json(report.to_dict())
        return 0 if report.passed else 1
    rows = [
        (ran.probe, ran.stage, t(f"guard.state.{ran.state}"), f"{ran.seconds:.1f}", ran.reason)
        for ran in report.ran
    ]
    print_table(
        [t(f"guard.column.{name}") for name in ("probe", "stage", "state", "seconds", "reason")], rows
    )
    for finding in report:
        print_finding(finding)
    key = "guard.passed" if report.passed else "guard.failed"
    print(
        t(
            key,
            probes=len(report.ran),
            seconds=f"{report.seconds:.0f}",
            id=report.cause.id if report.cause else "",
        )
    )
    return 0 if report.passed else 1
