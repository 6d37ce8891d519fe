"""`umsicht compare`: do two recipes really differ?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.text import Text

from umsicht.cli.output import amount, console, print_json, print_table
from umsicht.cli.projects import find_run
from umsicht.diagnose.compare import Comparison, Contest
from umsicht.findings import UserError
from umsicht.words import t


def compare(
    runs: list[str],
    *,
    metric: str | None = None,
    group: Annotated[list[str] | None, Parameter(negative=())] = None,
    level: float = 0.95,
    json: bool = False,
) -> int:
    """Do runs really differ? Seeds are grouped, the difference gets an interval, and inside the noise no winner is called.

    Exit code 1 where the runs cannot be compared.

    Parameters
    ----------
    runs
        Runs (folders or names) or logs of other tools; the first one's group is what the others are held against.
    metric
        The figure to compare; by default val/all/bpb where every run has it, else val/all/loss.
    group
        Put logs into a group by hand: --group new=a.csv,b.csv (as often as needed).
    level
        Confidence of the intervals.
    json
        Print JSON.
    """
    from umsicht.diagnose.compare import compare as compare_paths

    if not 0.5 < level < 1:
        raise UserError(t("diagnose.compare.level", level=level), fix="--level 0.95")
    paths = [Path(run) if Path(run).exists() else find_run(run).folder for run in runs]
    made = compare_paths(paths, metric=metric, assigned=_groups(group or []), level=level)
    if json:
        print_json(made.to_dict())
    else:
        show(made)
    return 1 if made.refused else 0


def _groups(pairs: list[str]) -> dict[str, list[str]] | None:
    assigned = {}
    for pair in pairs:
        label, sign, names = pair.partition("=")
        if not sign or not names:
            raise UserError(t("diagnose.compare.bad_group", pair=pair), fix="--group NAME=RUN,RUN")
        assigned[label] = [name.strip() for name in names.split(",")]
    return assigned or None


def show(made: Comparison) -> None:
    """The comparison as text."""
    out = console()
    out.print(Text(t("diagnose.compare.title", metric=made.metric), style="bold"))
    rows = [
        (one.label, len(one.runs), ", ".join(map(str, one.seeds)), ", ".join(r.name for r in one.runs))
        for one in made.groups
    ]
    print_table([t(f"diagnose.compare.col.{name}") for name in ("group", "n", "seeds", "runs")], rows)
    for label, changes in made.changes.items():
        for key, (old, new) in list(changes.items())[:8]:
            out.print(Text(f"  {made.groups[0].label} → {label}: {key}: {old} → {new}"))
    if made.refused:
        out.print(Text(t("diagnose.compare.refused") + " " + made.refused, style="bold red"))
    for contest in made.contests:
        _show_contest(contest)
    for caution in made.cautions:
        out.print(Text(f"! {caution}", style="yellow"))


def _show_contest(contest: Contest) -> None:
    budget = f"{contest.budget:.0f} s" if contest.at == "time" else amount(contest.budget)
    title = f"\n{t(f'diagnose.compare.at.{contest.at}')} ({budget})"
    rows = [
        (
            side.label,
            len(side.values),
            f"{side.mean:.4f}",
            f"{side.spread:.4f}" if side.spread is not None else "—",
        )
        for side in (contest.a, contest.b)
    ]
    print_table(
        [t(f"diagnose.compare.col.{name}") for name in ("group", "n", "mean", "spread")], rows, title=title
    )
    decided = contest.decision in ("a-better", "b-better")
    console().print(Text(contest.text, style="bold green" if decided else "bold yellow"))
