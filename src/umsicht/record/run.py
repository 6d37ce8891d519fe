"""A run: one training of one model, in one folder, across any number of restarts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson

from umsicht.record.files import atomic_json
from umsicht.record.manifest import MANIFEST, provenance, read_manifest
from umsicht.record.metrics import Metrics, MetricsWriter, read_metrics, spell

SCHEMA = 1


class RunExistsError(Exception):
    """A run folder is there already."""


class Run:
    """The record of a run. Everything is plain files; this class only knows their names and how to write them safely."""

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self.folder = folder
        self.manifest = manifest

    @classmethod
    def create(cls, folder: Path | str, manifest: Mapping[str, Any]) -> Run:
        """Begin a run in a new folder. `manifest` holds at least `name`, `recipe`, `inputs` (artifact ids by kind) and `seed`."""
        folder = Path(folder)
        if (folder / MANIFEST).exists():
            raise RunExistsError(f"{folder} already holds a run")
        folder.mkdir(parents=True, exist_ok=True)
        head = {
            "schema": SCHEMA,
            "kind": "run",
            "state": "created",
            "segments": 0,
            **manifest,
            **provenance(),
        }
        atomic_json(folder / MANIFEST, head)
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path | str) -> Run:
        """Open a run folder. Raises FileNotFoundError where it holds none."""
        folder = Path(folder)
        manifest = read_manifest(folder)
        if manifest is None or manifest.get("kind") != "run":
            raise FileNotFoundError(f"{folder} holds no run (no manifest.json of kind 'run')")
        return cls(folder, manifest)

    @property
    def name(self) -> str:
        """The run's name: its folder's."""
        return self.folder.name

    @property
    def metrics_path(self) -> Path:
        """`metrics.jsonl`."""
        return self.folder / "metrics.jsonl"

    @property
    def findings_path(self) -> Path:
        """`findings.jsonl`."""
        return self.folder / "findings.jsonl"

    @property
    def samples_path(self) -> Path:
        """`samples.jsonl`."""
        return self.folder / "samples.jsonl"

    @property
    def checkpoints(self) -> Path:
        """`checkpoints/`."""
        return self.folder / "checkpoints"

    @property
    def evaluations(self) -> Path:
        """`evaluations/`."""
        return self.folder / "evaluations"

    def update_manifest(self, **changes: Any) -> None:
        """Merge `changes` into the manifest and write it whole."""
        self.manifest = {**self.manifest, **changes}
        atomic_json(self.folder / MANIFEST, self.manifest)

    def begin_segment(self) -> int:
        """A (re)start: the number of this attempt, from 0."""
        segment = int(self.manifest.get("segments", 0))
        history = [*self.manifest.get("segment_history", []), {"segment": segment, **provenance()}]
        self.update_manifest(segments=segment + 1, segment_history=history, state="running")
        return segment

    def metrics_writer(self, segment: int) -> MetricsWriter:
        """A writer for this attempt's rows."""
        return MetricsWriter(self.metrics_path, segment)

    def metrics(self) -> Metrics:
        """What was measured so far."""
        return read_metrics(self.metrics_path)

    def add_finding(self, finding: Mapping[str, Any]) -> None:
        """Append a finding (already a plain mapping)."""
        append_jsonl(self.findings_path, [finding])

    def findings(self) -> list[dict[str, Any]]:
        """Every finding recorded, oldest first."""
        return read_jsonl(self.findings_path)

    def add_samples(self, samples: Iterable[Mapping[str, Any]]) -> None:
        """Append generated samples."""
        append_jsonl(self.samples_path, samples)

    def samples(self) -> list[dict[str, Any]]:
        """Every sample recorded, oldest first."""
        return read_jsonl(self.samples_path)


def append_jsonl(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Append rows, each a line, in one write; a torn last line is closed first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = b"".join(orjson.dumps(spell(dict(row)), option=orjson.OPT_NON_STR_KEYS) + b"\n" for row in rows)
    with path.open("ab+") as file:
        end = file.seek(0, os.SEEK_END)
        if end:
            file.seek(end - 1)
            if file.read(1) != b"\n":
                data = b"\n" + data
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSONL file; lines that are not whole JSON objects are skipped."""
    if not path.exists():
        return []
    rows = []
    for line in path.read_bytes().split(b"\n"):
        if not line.strip():
            continue
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if isinstance(row, dict):
            rows.append(row)
    return rows
