"""Which runs a folder holds, by id. Pages name runs only by these ids, so no request can reach a path of its own choosing."""

from __future__ import annotations

import hashlib
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from umsicht.record.manifest import read_manifest

PATTERNS = ("manifest.json", "*/manifest.json", "runs/*/manifest.json", "*/runs/*/manifest.json")
FRESH_S = 1.0


@dataclass(frozen=True)
class Entry:
    """One run: its id in URLs, its folder, its manifest."""

    id: str
    folder: Path
    manifest: dict[str, Any]

    @property
    def project(self) -> Path:
        """The project folder around it."""
        return self.folder.parent.parent


class Index:
    """The runs below `root`: a project, a folder of projects, a `runs` folder, or one run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = threading.Lock()
        self._entries: dict[str, Entry] = {}
        self._manifests: dict[Path, tuple[int, dict[str, Any]]] = {}
        self._read_at = -FRESH_S

    def entries(self) -> list[Entry]:
        """All runs, newest first; the folder is looked at again at most once a second."""
        with self._lock:
            if time.monotonic() - self._read_at >= FRESH_S:
                self._entries = self._scan()
                self._read_at = time.monotonic()
            return list(self._entries.values())

    def get(self, run_id: str) -> Entry | None:
        """The run with this id, or None."""
        return next((entry for entry in self.entries() if entry.id == run_id), None)

    def projects(self) -> list[Path]:
        """Every project folder that holds one of the runs, and `root` itself, each once."""
        found = dict.fromkeys([self.root, *(entry.project for entry in self.entries())])
        return [folder for folder in found if (folder / "runs").is_dir() or (folder / "artifacts").is_dir()]

    def _scan(self) -> dict[str, Entry]:
        folders: dict[Path, dict[str, Any]] = {}
        for pattern in PATTERNS:
            for path in self.root.glob(pattern):
                manifest = self._manifest(path)
                if manifest is not None and manifest.get("kind") == "run" and _inside(path, self.root):
                    folders[path.parent] = manifest
        names = [folder.name for folder in folders]
        found = [
            Entry(folder.name if names.count(folder.name) == 1 else _unique(folder), folder, manifest)
            for folder, manifest in folders.items()
        ]
        found.sort(key=lambda entry: (str(entry.manifest.get("created", "")), entry.id), reverse=True)
        return {entry.id: entry for entry in found}

    def _manifest(self, path: Path) -> dict[str, Any] | None:
        try:
            stamp = path.stat().st_mtime_ns
        except OSError:
            return None
        known = self._manifests.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        manifest = read_manifest(path.parent)
        if manifest is not None:
            self._manifests[path] = (stamp, manifest)
        return manifest


def _unique(folder: Path) -> str:
    return f"{folder.name}-{hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:6]}"


def _inside(path: Path, root: Path) -> bool:
    """False where a link leads out of the folder that was opened."""
    return path.resolve().is_relative_to(root.resolve())
