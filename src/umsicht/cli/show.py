"""`umsicht show`: the measurement sheet of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from umsicht.cli.output import console, print_json, print_table
from umsicht.cli.projects import find_run, project_of
from umsicht.record.run import Run
from umsicht.record.sheet import sheet
from umsicht.words import t

if TYPE_CHECKING:
    from umsicht.plan.grade import Grade


def show(run: str, *, json: bool = False, format: Literal["table", "markdown"] = "table") -> int:
    """The measurement sheet of a run: what it is, what it was made from, what was measured.

    Parameters
    ----------
    run
        A run's folder or name, or a project's folder (its newest run).
    json
        Print JSON.
    format
        `table` for the terminal, `markdown` to paste.
    """
    record = find_run(run)
    made = sheet(record)
    grades = _grades(record)
    if json:
        print_json({**made.to_dict(), "plan": [one.to_dict() for one in grades]})
    elif format == "markdown":
        print(made.to_markdown())
    else:
        console().print(made.to_table())
        if grades:
            _show_grades(grades)
    return 0


def _grades(record: Run) -> list[Grade]:
    """The plan that the run was begun with, graded; empty where there is none."""
    planned = record.manifest.get("plan")
    artifact = project_of(record.folder).store.by_id(str(planned)) if planned else None
    if artifact is None:
        return []
    from umsicht.plan.grade import grade

    return grade(artifact.report, record)


def _show_grades(grades: list[Grade]) -> None:
    rows = [
        (
            one.quantity,
            f"{one.predicted:.4g}" + ("" if one.low is None else f" ({one.low:.4g} – {one.high:.4g})"),
            f"{one.actual:.4g}",
            f"{100 * one.error:+.1f} %",
            "✓" if one.good else "✗",
        )
        for one in grades
    ]
    columns = ("what", "predicted", "actual", "error", "good")
    print_table([t(f"plan.grade.column.{name}") for name in columns], rows, title=t("plan.grade.title"))
