"""Finding what the user means: a project folder, a run by name or path."""

from __future__ import annotations

from pathlib import Path

from umsicht.findings import UserError
from umsicht.record.manifest import MANIFEST
from umsicht.record.project import Project
from umsicht.record.run import Run
from umsicht.words import t


def project_of(folder: Path) -> Project:
    """The project that `folder` is, or lies in."""
    for candidate in (folder, *folder.resolve().parents):
        if (candidate / "runs").is_dir() or (candidate / "artifacts").is_dir():
            return Project(candidate)
    return Project(folder)


def existing(folder: Path) -> Path:
    """`folder`, if it is one. Raises UserError: a mistyped name must not look like a project in which all is well."""
    if not folder.is_dir():
        raise UserError(
            t("cli.folder.missing", folder=folder), where=str(Path.cwd()), fix=t("cli.folder.missing.fix")
        )
    return folder


def damaged(folder: Path) -> UserError:
    """A run whose manifest is there and cannot be read: it must not look like one that never was."""
    return UserError(
        t("cli.run.damaged", folder=folder), where=str(folder / MANIFEST), fix=t("cli.run.damaged.fix")
    )


def find_run(name: str | Path) -> Run:
    """A run by its folder, by its project's folder (the newest run), or by name in the project around the current folder.

    Raises UserError where there is none.
    """
    path = Path(name)
    try:
        return Run.open(path)
    except (FileNotFoundError, NotADirectoryError):
        if (path / MANIFEST).is_file():
            raise damaged(path) from None
    if (path / "runs").is_dir():
        runs = Project(path).runs()
        if runs:
            return runs[0]
    project = project_of(Path.cwd())
    for candidate in (project, *(Project(entry) for entry in sorted(Path.cwd().glob("*")) if entry.is_dir())):
        for run in candidate.runs():
            if run.name == str(name):
                return run
    raise UserError(t("cli.run.not_found", name=name), where=str(Path.cwd()), fix=t("cli.run.not_found.fix"))
