"""Refused before step 1: folders that a run will write to and cannot."""

from __future__ import annotations

import os
import tempfile
import uuid
from pathlib import Path

from umsicht.findings import UserError
from umsicht.words import t

PROBE_BYTES = 1 << 20


def refuse_unwritable(folder: Path) -> None:
    """Write a megabyte to the project's folder and to the one for temporary files, and take it away again. Raises UserError with the path.

    The folder need not exist yet: then the nearest one above it is tried.
    """
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    _try(folder, "folder")
    _try(_temporary(), "temporary")


def _temporary() -> Path:
    """The folder a user chose for temporary files. Python itself would quietly go on to the next one where this one is full."""
    for name in ("TMPDIR", "TEMP", "TMP"):
        if os.environ.get(name):
            return Path(os.environ[name])
    return Path(tempfile.gettempdir())


def _try(folder: Path, what: str) -> None:
    probe = folder / f".tmp-probe-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    try:
        with probe.open("wb") as file:
            file.write(bytes(PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise UserError(
            t(f"survive.refused_{what}", path=folder.resolve(), error=error.strerror or error),
            where=str(folder.resolve()),
            why=t(f"survive.refused_{what}_why"),
            fix=t(f"survive.refused_{what}_fix"),
        ) from None
    finally:
        if probe.exists():
            probe.unlink()
