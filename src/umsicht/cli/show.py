"""`umsicht show`: the measurement sheet of a run."""

from __future__ import annotations

from typing import Literal

from umsicht.cli.output import console, print_json
from umsicht.cli.projects import find_run
from umsicht.record.sheet import sheet


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
    made = sheet(find_run(run))
    if json:
        print_json(made.to_dict())
    elif format == "markdown":
        print(made.to_markdown())
    else:
        console().print(made.to_table())
    return 0
