"""The manifest: the last file written into a folder, with the digest of every other file. No manifest, no thing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from umsicht.record.environment import code_version, environment, hardware
from umsicht.record.files import atomic_json
from umsicht.record.ids import file_digest

MANIFEST = "manifest.json"
SCHEMA = 1


@dataclass(frozen=True)
class Damage:
    """One file that is not what the manifest says."""

    path: str
    problem: str  # "missing" | "size" | "digest" | "unlisted"
    expected: str = ""
    found: str = ""


def now() -> str:
    """The time in UTC, to the second, in ISO 8601."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def inventory(folder: Path) -> dict[str, dict[str, Any]]:
    """Digest and size of every file below `folder`, by relative path; the manifest itself left out."""
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != MANIFEST:
            files[path.relative_to(folder).as_posix()] = {
                "sha256": file_digest(path),
                "bytes": path.stat().st_size,
            }
    return files


def provenance() -> dict[str, Any]:
    """Who made it, with what, when: kept for the reader, not hashed into any id."""
    return {"created": now(), "code": code_version(), "environment": environment(), "hardware": hardware()}


def write_manifest(folder: Path, head: dict[str, Any]) -> dict[str, Any]:
    """Write the manifest of `folder`: `head`, provenance, and the inventory. Call it last."""
    manifest = {"schema": SCHEMA, **head, **provenance(), "files": inventory(folder)}
    atomic_json(folder / MANIFEST, manifest)
    return manifest


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of `folder`, or None where there is none or it cannot be read."""
    try:
        loaded = orjson.loads((folder / MANIFEST).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None
    return loaded if isinstance(loaded, dict) else None


def verify(folder: Path) -> list[Damage]:
    """Compare every file with its manifest by reading it again. An empty list means: whole."""
    manifest = read_manifest(folder)
    if manifest is None:
        return [Damage(MANIFEST, "missing")]
    damages = []
    for relative, listed in manifest.get("files", {}).items():
        path = folder / relative
        if not path.is_file():
            damages.append(Damage(relative, "missing"))
        elif path.stat().st_size != listed["bytes"]:
            damages.append(Damage(relative, "size", str(listed["bytes"]), str(path.stat().st_size)))
        elif (found := file_digest(path, fresh=True)) != listed["sha256"]:
            damages.append(Damage(relative, "digest", listed["sha256"], found))
    return damages
