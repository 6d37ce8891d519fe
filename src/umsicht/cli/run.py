"""`umsicht run`: from text to a trained, evaluated, recorded model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from umsicht.cli.finetune import show_stage
from umsicht.cli.options import Acknowledged, Overrides, Waived
from umsicht.cli.output import human, print_finding, print_json, print_table
from umsicht.cli.walks import acknowledged, exit_code, open_walk, show_gate
from umsicht.survive.writable import refuse_unwritable
from umsicht.words import t

if TYPE_CHECKING:
    from umsicht.pipeline import Walk
    from umsicht.pipeline.run import Finished


def run(
    recipe: Path,
    *,
    out: Path | None = None,
    set_: Overrides | None = None,
    waive: Waived | None = None,
    acknowledge: Acknowledged | None = None,
    because: str = "",
    dry_run: bool = False,
    json: bool = False,
) -> int:
    """Run a recipe from text to a trained, evaluated, recorded model. What exists is not made again; the same command resumes.

    Parameters
    ----------
    recipe
        The recipe file.
    out
        Folder of the project; by default one named after the recipe, in the current folder (the recipe's own folder if it is a `recipe.yaml`).
    set_
        Override a setting: --set train.budget.steps=500 (as often as needed).
    waive
        Pass a closed gate for this finding; needs --because.
    acknowledge
        Go on with a run that a guard stopped for this finding; needs --because with what was found and the one thing changed.
    because
        The written reason for --waive or --acknowledge; it stays in the record.
    dry_run
        Print what would be used and stop.
    json
        Print the result as JSON.
    """
    walk = open_walk(recipe, out=out, overrides=set_ or [], waive=waive or [], because=because)
    walk.acknowledged = acknowledged(acknowledge, because)
    if dry_run:
        print_json(walk.recipe.plain())
        return 0
    refuse_unwritable(walk.project.folder)
    from umsicht.pipeline import GateClosedError
    from umsicht.pipeline.run import run as run_walk

    try:
        finished = run_walk(walk)
    except GateClosedError as shut:
        return show_gate(shut, json=json)
    if finished.outcome.reason == "stopped-by-guard":
        if finished.outcome.finding is not None:
            print_finding(finished.outcome.finding)
        return exit_code(finished.outcome)
    if finished.outcome.reason == "interrupted":
        print(t("cli.interrupted"))
        return exit_code(finished.outcome)
    print_json(result(walk, finished)) if json else show_result(walk, finished)
    if finished.last.reason == "interrupted":
        print(t("cli.interrupted"))
    return exit_code(finished.last)


def result(walk: Walk, finished: Finished) -> dict[str, Any]:
    """The end of a walk as plain JSON."""
    return {
        "run": str(finished.run.folder),
        "outcome": {"reason": finished.outcome.reason, "step": finished.outcome.step},
        "evaluation": finished.evaluation.to_dict() if finished.evaluation else None,
        "diagnosis": finished.diagnosis.to_dict() if finished.diagnosis else None,
        "report": str(finished.report) if finished.report else None,
        "stages": [stage.to_dict() for stage in finished.stages],
        "findings": [finding.to_dict() for finding in walk.findings],
    }


def show_result(walk: Walk, finished: Finished) -> None:
    """The end of a walk in the terminal: scores beside baselines, findings, verdict, where to look."""
    evaluation = finished.evaluation
    if evaluation is not None:
        rows = []
        for name, score in sorted(evaluation.slices.items()):
            base = evaluation.baselines.get(name, {})
            best = min((value for value in base.values()), default=float("inf"))
            rows.append(
                (
                    name,
                    human(score.bytes, "B"),
                    f"{score.bpb:.3f}",
                    *(f"{base[key]:.3f}" if key in base else "—" for key in ("xz", "xz_context", "ngram5")),
                    "✓" if score.bpb < best else "",
                )
            )
        print_table(
            [
                t(f"cli.scores.{name}")
                for name in ("slice", "bytes", "model", "xz", "xz_context", "ngram5", "best")
            ],
            rows,
            title=t("cli.scores.title", step=evaluation.step),
        )
    for finding in walk.findings:
        if finding.grade != "note":
            print_finding(finding)
    if finished.diagnosis is not None:
        print(t("cli.verdict", verdict=finished.diagnosis.title))
        print(f"  {finished.diagnosis.summary}")
    for stage in finished.stages:
        show_stage(stage)
    print(t("cli.where", run=finished.run.folder, report=finished.report, project=walk.project.folder))
