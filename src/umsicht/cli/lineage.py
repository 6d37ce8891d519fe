"""`umsicht lineage`: trace a run back to its sources."""

from __future__ import annotations

from umsicht.cli.output import print_json
from umsicht.cli.projects import find_run, project_of
from umsicht.record.project import describe
from umsicht.record.project import lineage as trace


def lineage(run: str, *, json: bool = False) -> int:
    """Trace a run back to each source file.

    Parameters
    ----------
    run
        A run's folder or name, or a project's folder (its newest run).
    json
        Print JSON.
    """
    found = find_run(run)
    node = trace(found.manifest, project_of(found.folder).store, found.name)
    if json:
        print_json(node.to_dict())
    else:
        print("\n".join(describe(node)))
    return 0
