"""`umsicht gc`: remove what no run needs."""

from __future__ import annotations

from pathlib import Path

from umsicht.cli.output import amount
from umsicht.cli.projects import existing, project_of
from umsicht.record.project import collect_garbage, garbage
from umsicht.words import t


def gc(folder: Path = Path(), *, yes: bool = False) -> int:
    """Show, and with --yes remove, artifacts that no run descends from and leftovers of writes that never finished.

    Parameters
    ----------
    folder
        The project's folder.
    yes
        Remove; without it the list is only shown.
    """
    project = project_of(existing(folder))
    found = list(garbage(project))
    if not found:
        print(t("cli.gc.nothing"))
        return 0
    for item in found:
        key = "cli.gc.removed" if yes else "cli.gc.would"
        print(
            t(
                key,
                path=item.path,
                reason=t(f"cli.gc.{item.reason}"),
                size=amount(item.size_bytes, "B"),
            )
        )
    if yes:
        print(t("cli.gc.freed", size=amount(collect_garbage(project, found), "B")))
    else:
        print(t("cli.gc.total", size=amount(sum(item.size_bytes for item in found), "B")))
    return 0
