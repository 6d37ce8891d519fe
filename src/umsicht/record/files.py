"""Writes that are whole or absent: temporary name in the same folder, fsync, rename.

A reader never sees half a file under its final name, and a failed write never harms what stood there before.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson

TEMPORARY = ".tmp-"


def fsync_folder(folder: Path) -> None:
    """Make a rename inside `folder` survive a power cut (no-op where folders cannot be opened)."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _temporary(path: Path) -> Path:
    return path.parent / f"{TEMPORARY}{path.name}-{os.getpid()}-{uuid.uuid4().hex[:8]}"


def atomic_write(path: str | os.PathLike[str], data: bytes | str) -> Path:
    """Write `data` to `path`, whole or not at all. Raises OSError (disk full, read-only) with the old file intact."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path)
    try:
        with temporary.open("wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        raise _named(error, path) from None
    fsync_folder(path.parent)
    return path


def atomic_json(path: str | os.PathLike[str], obj: Any) -> Path:
    """Write `obj` as indented JSON, whole or not at all."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY
    return atomic_write(path, orjson.dumps(obj, option=options) + b"\n")


@contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary folder beside `path`; on success fsync what is in it and rename it to `path`.

    An incomplete folder already under that name gives way only to a whole one. On any error the temporary folder is removed.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path)
    temporary.mkdir()
    try:
        yield temporary
        for file in temporary.rglob("*"):
            if file.is_file():
                with file.open("rb") as handle:
                    os.fsync(handle.fileno())
        if path.exists():
            stale = _temporary(path)
            path.replace(stale)
            temporary.replace(path)
            shutil.rmtree(stale, ignore_errors=True)
        else:
            temporary.replace(path)
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise _named(error, path) from None
    fsync_folder(path.parent)


def _named(error: BaseException, path: Path) -> BaseException:
    """A failed write with the path it was for: the system names none when the disk is full in mid-write."""
    if isinstance(error, OSError) and error.errno is not None and error.filename is None:
        error.filename = str(path)
    return error


def sweep_temporaries(folder: Path) -> list[Path]:
    """Remove temporary files and folders that a killed process of this machine left in `folder`; return what was removed."""
    removed = []
    for entry in folder.glob(f"{TEMPORARY}*"):
        pid = entry.name.rsplit("-", 2)[-2]
        if pid.isdigit() and _alive(int(pid)):
            continue
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
        removed.append(entry)
    return removed


def _alive(pid: int) -> bool:
    if pid == os.getpid():
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
