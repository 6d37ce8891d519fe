"""Everything a page says about one run, read from its folder. Whatever is not there yet is simply absent."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from umsicht.diagnose.diagnosis import diagnose_columns
from umsicht.findings import Finding, Rendered, UserError, render
from umsicht.record import Run
from umsicht.record.columns import Columns
from umsicht.record.manifest import read_manifest
from umsicht.record.project import Project, lineage
from umsicht.words import t

Json = dict[str, Any]


@dataclass(frozen=True)
class Checkpoint:
    """One saved state. `whole` is false where the manifest, which is written last, is missing."""

    name: str
    step: int
    whole: bool
    bytes: int
    manifest: Json = field(repr=False)


@dataclass(frozen=True)
class RunFacts:
    """The records of one run except its metrics, which live in `tail`."""

    folder: Path
    manifest: Json

    @classmethod
    def open(cls, folder: Path) -> RunFacts:
        """Raises UserError where `folder` is no run."""
        manifest = read_manifest(folder)
        if manifest is None:
            raise UserError(t("dashboard.error.no_run", folder=folder), fix=t("dashboard.error.no_run.fix"))
        return cls(folder, manifest)

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def project(self) -> Project:
        """The project around the run: the folder that holds `runs/` and `artifacts/`."""
        return Project(self.folder.parent.parent)

    @property
    def metrics_path(self) -> Path:
        return self.folder / "metrics.jsonl"

    @property
    def recipe(self) -> Json:
        return mapping(self.manifest.get("recipe"))

    @functools.cached_property
    def findings(self) -> list[Json]:
        return _run(self).findings()

    @functools.cached_property
    def samples(self) -> list[Json]:
        return _run(self).samples()

    @functools.cached_property
    def evaluations(self) -> list[Json]:
        """The evaluation files, oldest step first; unreadable ones are left out."""
        found = [
            loaded | {"_file": path.name}
            for path in (self.folder / "evaluations").glob("*.json")
            if (loaded := load_json(path))
        ]
        return sorted(found, key=lambda item: (_number(item.get("step")), item["_file"]))

    @functools.cached_property
    def checkpoints(self) -> list[Checkpoint]:
        found = [_checkpoint(path) for path in (self.folder / "checkpoints").glob("step-*") if path.is_dir()]
        return sorted(found, key=lambda item: item.step)

    def artifact(self, kind: str) -> tuple[Path, Json, Json] | None:
        """Folder, manifest and report of the artifact of `kind` this run descends from, followed through all inputs."""
        return _find_input(self.manifest, kind, self.project)

    @functools.cached_property
    def slices_by_size(self) -> list[str]:
        """Validation slices, the one with most held-out text first, as the token or corpus report counts them."""
        for kind, split in (("tokens", "val"), ("corpus", "slices")):
            found = self.artifact(kind)
            counted = mapping(found[2].get(split)) if found else {}
            sizes = mapping(counted.get("slices")) or counted
            if sizes:
                return sorted(sizes, key=lambda name: -_bytes_of(sizes[name]))
        return []

    @property
    def waivers(self) -> dict[str, str]:
        """Reasons for which findings were passed over, by finding id."""
        listed = self.manifest.get("waivers") or ()
        return {
            str(item.get("finding") or item.get("id")): str(item.get("because", ""))
            for item in listed
            if isinstance(item, dict)
        }

    def lineage(self) -> Json:
        """The tree of what the run was made from, as plain JSON."""
        return lineage(self.manifest, self.project.store, self.name).to_dict()


def _bytes_of(about: object) -> float:
    counts = mapping(about)
    inner = mapping(counts.get("val")) or counts
    return max(0.0, _number(inner.get("bytes")))


def _run(facts: RunFacts) -> Run:
    return Run(facts.folder, facts.manifest)


def _checkpoint(path: Path) -> Checkpoint:
    manifest = read_manifest(path)
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    digits = path.name.removeprefix("step-")
    return Checkpoint(
        path.name, int(digits) if digits.isdigit() else 0, manifest is not None, size, manifest or {}
    )


def _find_input(
    manifest: Json, kind: str, project: Project, depth: int = 0
) -> tuple[Path, Json, Json] | None:
    if depth > 8:
        return None
    for identity in mapping(manifest.get("inputs")).values():
        artifact = project.store.by_id(str(identity)) if identity else None
        if artifact is None:
            continue
        if artifact.kind == kind:
            return artifact.path, artifact.manifest, load_json(artifact.path / "report.json") or {}
        deeper = _find_input(artifact.manifest, kind, project, depth + 1)
        if deeper is not None:
            return deeper
    return None


def load_json(path: Path) -> Json | None:
    """A JSON object from a file, or None."""
    try:
        loaded = orjson.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return loaded if isinstance(loaded, dict) else None


def mapping(value: object) -> Json:
    """`value` if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else -1.0


def rendered(finding: Json, lang: str) -> Rendered | None:
    """A recorded finding in words; None where the record is no finding."""
    try:
        return render(Finding.from_dict(finding), lang)
    except (TypeError, ValueError, KeyError):
        return None


def diagnosis(folder: Path, columns: Columns) -> Json | None:
    """The verdict on a run as plain JSON, from its record read as columns; None where it cannot be given."""
    try:
        return mapping(diagnose_columns(folder, columns).to_dict())
    except (OSError, UserError, ValueError, KeyError, TypeError):
        return None
