"""A project folder: `recipe.yaml`, `artifacts/`, `runs/`; what is in it, what hangs on what, what may go."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from umsicht.record.artifact import Artifact, Store
from umsicht.record.files import TEMPORARY
from umsicht.record.ids import short
from umsicht.record.run import Run
from umsicht.record.sheet import in_words
from umsicht.words import t


class Project:
    """The rooms of one project folder."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    @property
    def store(self) -> Store:
        """`artifacts/`."""
        return Store(self.folder / "artifacts")

    @property
    def runs_folder(self) -> Path:
        """`runs/`."""
        return self.folder / "runs"

    def runs(self) -> list[Run]:
        """Every run, newest first."""
        found = []
        for folder in self.runs_folder.glob("*"):
            try:
                found.append(Run.open(folder))
            except (FileNotFoundError, NotADirectoryError):
                continue
        return sorted(found, key=lambda run: str(run.manifest.get("created", "")), reverse=True)


@dataclass(frozen=True)
class Node:
    """One thing in a lineage: an artifact, a run, or a source that was read."""

    kind: str
    name: str
    id: str
    missing: bool
    parents: tuple[Node, ...]

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "kind": self.kind,
            "name": self.name,
            "id": self.id,
            "missing": self.missing,
            "parents": [parent.to_dict() for parent in self.parents],
        }


def lineage(manifest: dict[str, Any], store: Store, name: str = "") -> Node:
    """Follow `inputs` back to the sources. An input whose artifact is gone is shown as missing, by its id."""
    parents = []
    for role, identity in manifest.get("inputs", {}).items():
        artifact = store.by_id(str(identity)) if identity else None
        if artifact is not None:
            parents.append(lineage(artifact.manifest, store, artifact.name))
        else:
            external = role.startswith(("source:", "file:", "base:"))
            parents.append(Node("source" if external else role, role, str(identity), not external, ()))
    return Node(
        str(manifest.get("kind", "?")),
        name or str(manifest.get("name", "")),
        str(manifest.get("id", "")),
        False,
        tuple(parents),
    )


def folder_bytes(folder: Path) -> int:
    """Bytes on disk below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@dataclass(frozen=True)
class Garbage:
    """Something no kept run needs."""

    path: Path
    reason: str  # "unused" | "unfinished"
    size_bytes: int
    artifact: Artifact | None = None


def garbage(project: Project) -> Iterator[Garbage]:
    """Artifacts that no run of the project descends from, and leftovers of writes that never finished."""
    needed: set[str] = set()
    for run in project.runs():
        _collect_ids(lineage(run.manifest, project.store, run.name), needed)
    for artifact in project.store.artifacts():
        if artifact.id not in needed:
            yield Garbage(artifact.path, "unused", folder_bytes(artifact.path), artifact)
    for root in (project.folder / "artifacts", project.runs_folder):
        for path in root.rglob(f"{TEMPORARY}*"):
            yield Garbage(path, "unfinished", folder_bytes(path) if path.is_dir() else path.stat().st_size)


def collect_garbage(project: Project, found: list[Garbage]) -> int:
    """Remove what `garbage` listed; return the bytes freed."""
    freed = 0
    for item in found:
        if item.artifact is not None:
            project.store.remove(item.artifact)
        elif item.path.is_dir():
            shutil.rmtree(item.path, ignore_errors=True)
        else:
            item.path.unlink(missing_ok=True)
        freed += item.size_bytes
    return freed


def _collect_ids(node: Node, into: set[str]) -> None:
    if node.id:
        into.add(node.id)
    for parent in node.parents:
        _collect_ids(parent, into)


def describe(node: Node, depth: int = 0) -> list[str]:
    """A lineage as indented lines."""
    mark = f" ({t('record.lineage.missing')})" if node.missing else ""
    kind, name = in_words("kind", node.kind), node.name.removeprefix(f"{node.kind}:")
    lines = [f"{'  ' * depth}{kind} {name} {short(node.id)}{mark}".rstrip()]
    for parent in node.parents:
        lines += describe(parent, depth + 1)
    return lines
