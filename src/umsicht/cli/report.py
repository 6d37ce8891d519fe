"""`umsicht report RUN`: one self-contained HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from umsicht.cli.output import print_json
from umsicht.cli.projects import find_run
from umsicht.words import language, t


def report(
    run: str,
    *,
    out: Annotated[Path | None, Parameter(alias="-o")] = None,
    redact: bool = False,
    json: bool = False,
) -> None:
    """Write one self-contained HTML report of a run: curves, verdict, samples, findings, measurement sheet, lineage.

    The file opens from disk without any request and holds both languages.

    Parameters
    ----------
    run
        A run's folder, or its name inside the project in the current directory.
    out
        Where to write it; `report.html` in the run's folder by default.
    redact
        Leave out paths, texts and names of sources, for bug reports.
    json
        Print the path as JSON.
    """
    from umsicht.dashboard import report as write

    folder = find_run(run).folder
    written = write(folder, out or folder / "report.html", language(), redact)
    if json:
        print_json({"report": str(written), "bytes": written.stat().st_size, "redacted": redact})
    else:
        print(t("dashboard.report.written", path=written))
