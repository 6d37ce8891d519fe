"""`umsicht runs`: list the runs of a project."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from umsicht.cli.output import human, print_json, print_table
from umsicht.cli.projects import existing, project_of
from umsicht.record.manifest import MANIFEST, read_manifest
from umsicht.record.run import Run
from umsicht.record.sheet import in_words
from umsicht.words import t


def runs(folder: Path = Path(), *, json: bool = False) -> int:
    """List the runs of a project, newest first.

    Parameters
    ----------
    folder
        The project's folder.
    json
        Print JSON.
    """
    project = project_of(existing(folder))
    rows = [summary(run) for run in project.runs()]
    for manifest in sorted(project.runs_folder.glob(f"*/{MANIFEST}")):
        if read_manifest(manifest.parent) is None:
            print(t("cli.run.damaged", folder=manifest.parent), file=sys.stderr)
    if json:
        print_json(rows)
    elif not rows:
        print(t("cli.runs.none", folder=folder))
    else:
        columns = ("run", "state", "step", "tokens", "train", "val", "created")
        print_table(
            [t(f"cli.col.{name}") for name in columns],
            [
                (
                    row["run"],
                    in_words("state", str(row["state"])),
                    row["step"],
                    human(row["tokens"]),
                    _figure(row["train_loss"]),
                    _figure(row["val_bpb"]),
                    row["created"],
                )
                for row in rows
            ],
        )
    return 0


def summary(run: Run) -> dict[str, Any]:
    """One line about a run."""
    metrics = run.metrics()
    return {
        "run": run.name,
        "folder": str(run.folder),
        "state": run.manifest.get("state"),
        "step": metrics.last("step") or 0,
        "tokens": metrics.last("tokens") or 0,
        "train_loss": metrics.last("train/loss"),
        "val_bpb": metrics.last("val/all/bpb"),
        "created": run.manifest.get("created"),
    }


def _figure(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else "—"
