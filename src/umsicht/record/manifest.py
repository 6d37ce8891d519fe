"""The manifest: the last file written into a folder, with the digest of every other file. No manifest, no thing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from umsicht.record.environment import code_version, environment, hardware
from umsicht.record.files import atomic_json
from umsicht.record.ids import content_id, file_digest

MANIFEST = "manifest.json"
SCHEMA = 2
SEAL = "seal"


@dataclass(frozen=True)
class Damage:
    """One file that is not what the manifest says."""

    path: str
    problem: str  # "missing" | "unreadable" | "size" | "digest" | "unlisted"
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


def seal_of(manifest: dict[str, Any]) -> str:
    """Digest of all that a manifest says, the seal itself left out: the one file that no inventory can list vouches for itself."""
    return content_id({key: value for key, value in manifest.items() if key != SEAL})


def write_manifest(
    folder: Path, head: dict[str, Any], files: dict[str, dict[str, Any]] | None = None
) -> dict[str, Any]:
    """Write the manifest of `folder`: `head`, provenance, the inventory, and the seal over them. Call it last.

    `files` is the inventory where several processes have made it together.
    """
    listed = inventory(folder) if files is None else dict(sorted(files.items()))
    written = {"schema": SCHEMA, **head, **provenance(), "files": listed}
    manifest: dict[str, Any] = orjson.loads(
        orjson.dumps(written, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY)
    )
    manifest[SEAL] = seal_of(manifest)
    atomic_json(folder / MANIFEST, manifest)
    return manifest


def is_sealed(manifest: dict[str, Any]) -> bool:
    """True where the manifest is what was written. Schema 1 had no seal and is taken at its word."""
    return manifest.get("schema") == 1 or manifest.get(SEAL) == seal_of(manifest)


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
        return [Damage(MANIFEST, "unreadable" if (folder / MANIFEST).is_file() else "missing")]
    if not is_sealed(manifest):
        return [Damage(MANIFEST, "digest", str(manifest.get(SEAL, "")), seal_of(manifest))]
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
