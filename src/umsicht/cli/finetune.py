"""`umsicht finetune`: teach an evaluated base to answer, stage by stage."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from umsicht.cli.options import Overrides, Waived
from umsicht.cli.output import TerminalProgress, human, print_finding, print_json, print_table
from umsicht.cli.projects import find_run
from umsicht.cli.walks import exit_code
from umsicht.findings import UserError, Waiver, exits
from umsicht.record.progress import QUIET
from umsicht.record.project import Project
from umsicht.record.run import Run
from umsicht.words import t

if TYPE_CHECKING:
    from umsicht.finetune import Outlook, StageResult
    from umsicht.recipe.finetune import FinetuneSettings

Files = Annotated[list[Path], Parameter(name="--data", negative=())]


def finetune(
    base: str,
    *,
    recipe: Path | None = None,
    data: Files | None = None,
    method: Literal["sft", "dpo", "reward", "grpo"] = "sft",
    lora: bool = False,
    checkpoint: str = "best",
    set_: Overrides | None = None,
    waive: Waived | None = None,
    because: str = "",
    json: bool = False,
    dry_run: bool = False,
) -> int:
    """Fine-tune an evaluated base: the stages of a recipe's section `finetune`, or one stage on --data.

    A base that was not evaluated, or that is poor, is refused. Each stage becomes a run; a finished one is not trained again.

    Parameters
    ----------
    base
        The base: a run's folder or name, or a project's folder (its newest run that is no stage of fine-tuning itself).
    recipe
        Take the stages from this recipe; by default from the recipe that the base was made with.
    data
        Files of rows (.jsonl, .json, .gz): one stage on them instead of a recipe's.
    method
        With --data: sft imitates answers, dpo prefers one answer to another, reward makes a judge of answers, grpo earns a reward.
    lora
        With --data: train adapters instead of all weights.
    checkpoint
        The base's checkpoint: `best`, `latest`, a step, or a folder.
    set_
        Override a setting of the stage: --set epochs=1 (with --data; as often as needed).
    waive
        Pass a closed gate for this finding; needs --because.
    because
        The written reason for --waive; it stays in the record.
    json
        Print the results as JSON.
    dry_run
        Train nothing: say what each stage would train on, its steps, its memory, and whether its gate would open (else exit code 3).
    """
    from umsicht.finetune import run_stage
    from umsicht.pipeline.walk import parse_waivers

    run = _base(base)
    settings, root = _settings(run.manifest.get("recipe", {}), recipe, data, method, lora, set_ or [])
    waivers = parse_waivers(waive or [], because)
    if dry_run:
        return _show_outlook(settings, run, checkpoint, root, waivers, json)
    results: list[StageResult] = []
    for stage in settings.stages:
        progress = QUIET if json else TerminalProgress()
        progress.note(t("finetune.stage", name=stage.title, method=stage.method, base=run.name))
        result = run_stage(
            stage,
            run,
            checkpoint=checkpoint if not results else "best",
            root=root,
            waivers=waivers,
            forgetting_limit=settings.forgetting_limit,
            progress=progress,
        )
        results.append(result)
        if not json:
            show_stage(result)
        if result.outcome.reason not in ("finished", "early-stopped"):
            break
        run = result.next_base
    if json:
        print_json({"stages": [result.to_dict() for result in results]})
    return exit_code(results[-1].outcome)


def _base(name: str) -> Run:
    """In a project the newest pretrained or imported run: the same command given twice must not tune what it tuned before."""
    if (Path(name) / "runs").is_dir():
        bases = [run for run in Project(Path(name)).runs() if "parent" not in run.manifest]
        if bases:
            return bases[0]
    return find_run(name)


def _settings(
    recorded: dict[str, object],
    recipe: Path | None,
    data: list[Path] | None,
    method: str,
    lora: bool,
    overrides: list[str],
) -> tuple[FinetuneSettings, Path]:
    """The stages to run, and the folder that their data paths are relative to."""
    from umsicht.recipe import load_recipe, section_from
    from umsicht.recipe.finetune import FinetuneSettings, StageSettings

    if recipe is not None:
        settings, root = load_recipe(recipe, overrides).finetune, recipe.resolve().parent
    elif data:
        plain = {"method": method, "data": [str(path) for path in data], **({"lora": {}} if lora else {})}
        stage = section_from(StageSettings, plain, overrides)
        settings, root = FinetuneSettings(stages=[stage]), Path()
    else:
        settings, root = FinetuneSettings.model_validate(recorded.get("finetune", {})), Path()
    if not settings.stages:
        raise UserError(t("finetune.no_stages"), fix=t("finetune.no_stages_fix"))
    return settings, root


def _show_outlook(
    settings: FinetuneSettings,
    base: Run,
    checkpoint: str,
    root: Path,
    waivers: tuple[Waiver, ...],
    json: bool,
) -> int:
    """What the stages would do; 3 where a gate would stay shut, as the command without --dry-run."""
    from umsicht.finetune import outlook

    looked = outlook(settings.stages, base, checkpoint=checkpoint, root=root, waivers=waivers)
    if json:
        print_json({"settings": settings.plain(), "stages": [one.to_dict() for one in looked]})
    else:
        for one in looked:
            _print_outlook(one, base)
    return exits.OK if all(one.decision.open for one in looked) else exits.GUARD


def _print_outlook(one: Outlook, base: Run) -> None:
    print(t("finetune.stage", name=one.stage, method=one.method, base=base.name))
    rows = [
        (t("finetune.outlook.rows"), f"{one.training_rows:,} / {one.held_out_rows:,} / {one.refused_rows:,}"),
        *one.lines,
        (
            t("finetune.outlook.steps"),
            f"{one.steps:,} × {one.tokens // max(1, one.steps):,} = {one.tokens:,}",
        ),
        (t("finetune.outlook.rate"), f"{one.rate:g}"),
        (t("finetune.outlook.memory"), "—" if one.peak_bytes is None else human(one.peak_bytes, "B")),
    ]
    print_table(["", ""], rows)
    for finding in one.findings:
        print_finding(finding)
    print(t("finetune.outlook.opens" if one.decision.open else "finetune.outlook.shut"))


def show_stage(result: StageResult) -> None:
    """How a stage ended, and what it forgot."""
    print(
        t(
            "finetune.stage_done",
            run=result.run.name,
            reason=result.outcome.reason,
            step=result.outcome.step,
        )
    )
    rows = [
        (name, f"{before:.3f}", f"{after:.3f}", f"{100 * (after / before - 1):+.1f} %")
        for name, before, after in result.forgetting()
    ]
    if rows:
        columns = [t(f"finetune.{name}") for name in ("slice", "before", "after", "change")]
        print_table(columns, rows, title=t("finetune.forgetting"))
    for finding in result.findings:
        print_finding(finding)
