"""How kernels are compiled: ahead of the first call, without the interpreter lock, kept on disk where that is possible."""

from __future__ import annotations

import hashlib
import importlib
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from umsicht.words import t

Function = TypeVar("Function", bound=Callable[..., Any])


def _digest() -> str:
    """Of all kernels together: numba looks only at the file of a kernel, not at those of the kernels that it has taken in."""
    found = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


def _cache_folder() -> Path:
    """Where compiled code is kept: beside the source if that can be written, else among the user's caches; a folder for each state of the kernels."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    given = os.environ.get("NUMBA_CACHE_DIR")
    parents = [Path(given)] if given else [Path(__file__).parent / "__pycache__", home / "umsicht" / "numba"]
    for parent in parents:
        folder = parent / f"{_PREFIX}{_digest()}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    return Path(tempfile.mkdtemp(prefix=_PREFIX))


def _forget_older(folder: Path) -> None:
    """Code compiled from kernels as they were days ago. Newer folders may belong to a process that is still at work."""
    for other in folder.parent.glob(f"{_PREFIX}*"):
        if other != folder and time.time() - other.stat().st_mtime > OLD_S:
            shutil.rmtree(other, ignore_errors=True)


_PREFIX = "umsicht-kernels-"
OLD_S = 3 * 86_400
if _PREFIX not in os.environ.get("NUMBA_CACHE_DIR", ""):
    _chosen = _cache_folder()
    _forget_older(_chosen)
    os.environ["NUMBA_CACHE_DIR"] = str(_chosen)

_numba: Any = importlib.import_module("numba")  # only now: it reads the folder when it is imported
_types: Any = importlib.import_module("numba.types")

int64 = _types.int64
uint64 = _types.uint64
float64 = _types.float64
void = _types.void
boolean = _types.boolean


def readable(kind: str, dimensions: int = 1) -> Any:
    """An array that a kernel only reads; memory-mapped and immutable ones are welcome."""
    return _types.Array(getattr(_types, kind), dimensions, "C", readonly=True)


def writable(kind: str, dimensions: int = 1) -> Any:
    """An array that a kernel writes to."""
    return _types.Array(getattr(_types, kind), dimensions, "C")


_told = False


def _tell_once() -> None:
    """The first kernel that was not found on disk: the others will not be there either, and the reader should know what is waited for."""
    global _told
    if not _told and multiprocessing.parent_process() is None:
        print(t("corpus.compiling"), file=sys.stderr, flush=True)
    _told = True


def kernel(signature: Any) -> Callable[[Function], Function]:
    """Compile for one signature, releasing the interpreter lock."""
    decorate = _numba.njit(signature, nogil=True, cache=True)

    def compiled(function: Function) -> Function:
        made: Any = decorate(function)
        if made.stats.cache_misses:
            _tell_once()
        result: Function = made
        return result

    return compiled


def inline(function: Function) -> Function:
    """Compile a small helper into its callers."""
    decorated: Function = _numba.njit(inline="always")(function)
    return decorated
