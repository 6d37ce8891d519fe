"""Artifacts: what a stage made, named by what it was made from.

The id is the hash of the stage's settings, its `STAGE_VERSION` and the ids of its inputs. An artifact that exists is never made again; a folder
without a manifest does not exist.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from umsicht.record.files import atomic_folder, atomic_json, sweep_temporaries
from umsicht.record.ids import content_id, short
from umsicht.record.lock import FolderLock, Holder, waiting
from umsicht.record.manifest import read_manifest, write_manifest
from umsicht.words import t

REPORT = "report.json"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Artifact:
    """A finished folder with its manifest."""

    path: Path
    manifest: dict[str, Any] = field(repr=False)

    @property
    def id(self) -> str:
        """64 hex digits: settings, stage version and inputs."""
        return str(self.manifest["id"])

    @property
    def kind(self) -> str:
        """The stage that made it: `corpus`, `tokenizer`, `tokens`, `plan`, …"""
        return str(self.manifest["kind"])

    @property
    def name(self) -> str:
        """The recipe's name for it."""
        return str(self.manifest["name"])

    @property
    def report(self) -> dict[str, Any]:
        """What the stage says of its work."""
        loaded: dict[str, Any] = orjson.loads((self.path / REPORT).read_bytes())
        return loaded

    def file(self, relative: str) -> Path:
        """The path of one of its files."""
        return self.path / relative

    @classmethod
    def open(cls, path: Path) -> Artifact:
        """Open a finished artifact folder. Raises FileNotFoundError where there is no manifest."""
        manifest = read_manifest(path)
        if manifest is None:
            raise FileNotFoundError(f"{path} holds no finished artifact (no manifest.json)")
        return cls(path, manifest)


def _waits(target: Path, holder: Holder | None) -> str:
    if holder is None:
        return t("record.waits.nameless", path=target)
    return t("record.waits", path=target, pid=holder.pid, host=holder.host, since=holder.since)


def _made(target: Path, about: dict[str, Any], make: Callable[[Path], dict[str, Any]]) -> Artifact:
    with atomic_folder(target) as folder:
        report = make(folder)
        atomic_json(folder / REPORT, report)
        write_manifest(folder, about)
    return Artifact.open(target)


class Store:
    """The folder `artifacts/` of a project: `<kind>/<name>-<id12>/`."""

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)

    def identity(
        self, kind: str, *, stage_version: int, settings: Mapping[str, Any], inputs: Mapping[str, str]
    ) -> str:
        """The id an artifact would have."""
        return content_id(
            {"kind": kind, "stage_version": stage_version, "settings": settings, "inputs": inputs}
        )

    def find(self, kind: str, identity: str) -> Artifact | None:
        """The finished artifact with this id, under whatever name it was made."""
        for folder in sorted((self.root / kind).glob(f"*-{short(identity)}")):
            manifest = read_manifest(folder)
            if manifest is not None and manifest.get("id") == identity:
                return Artifact(folder, manifest)
        return None

    def build(
        self,
        kind: str,
        name: str,
        *,
        stage_version: int,
        settings: Mapping[str, Any],
        inputs: Mapping[str, str],
        make: Callable[[Path], dict[str, Any]],
    ) -> Artifact:
        """Return the artifact with this identity, making it if there is none.

        `make(folder)` writes the data into an empty folder and returns the report. If it fails, nothing remains. Where another process is
        making the same artifact, it is waited for and taken.
        """
        identity = self.identity(kind, stage_version=stage_version, settings=settings, inputs=inputs)
        found = self.find(kind, identity)
        if found is not None:
            return found
        parent = self.root / kind
        parent.mkdir(parents=True, exist_ok=True)
        sweep_temporaries(parent)
        target = parent / f"{name}-{short(identity)}"
        about = {
            "kind": kind,
            "name": name,
            "id": identity,
            "stage_version": stage_version,
            "settings": dict(settings),
            "inputs": dict(inputs),
        }
        lock = FolderLock(parent / f".{short(identity)}.lock")
        with waiting(lock, told=lambda holder: _log.warning(_waits(target, holder))):
            try:
                found = self.find(kind, identity)
                if found is None:
                    found = _made(target, about, make)
            finally:
                # While it is held: whoever waits opens the file anew.
                lock.path.unlink(missing_ok=True)
        return found

    def artifacts(self) -> Iterator[Artifact]:
        """Every finished artifact, kind by kind."""
        for folder in sorted(self.root.glob("*/*")):
            manifest = read_manifest(folder) if folder.is_dir() else None
            if manifest is not None and "id" in manifest:
                yield Artifact(folder, manifest)

    def by_id(self, identity: str) -> Artifact | None:
        """The artifact whose id starts with `identity`, any kind; None where none or several do."""
        matches = [artifact for artifact in self.artifacts() if artifact.id.startswith(identity)]
        return matches[0] if len(matches) == 1 else None

    def remove(self, artifact: Artifact) -> None:
        """Delete an artifact: the manifest first, so that an interrupted removal leaves nothing that looks whole."""
        (artifact.path / "manifest.json").unlink(missing_ok=True)
        shutil.rmtree(artifact.path)
