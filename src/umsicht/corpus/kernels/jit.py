"""How kernels are compiled: ahead of the first call, without the interpreter lock, kept on disk where that is possible."""

from __future__ import annotations

import importlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def _cache_folder() -> str | None:
    """Where compiled code goes if it cannot lie beside the source; None: beside the source."""
    if "NUMBA_CACHE_DIR" in os.environ or os.access(Path(__file__).parent, os.W_OK):
        return None
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    for folder in (home / "umsicht" / "numba", Path(tempfile.gettempdir()) / f"umsicht-numba-{os.getuid()}"):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return str(folder)
    return tempfile.mkdtemp(prefix="umsicht-numba-")


_chosen = _cache_folder()
if _chosen is not None:
    os.environ["NUMBA_CACHE_DIR"] = _chosen

_numba: Any = importlib.import_module("numba")  # only now: it reads the folder when it is imported
_types: Any = importlib.import_module("numba.types")

int64 = _types.int64
void = _types.void
boolean = _types.boolean


def readable(kind: str, dimensions: int = 1) -> Any:
    """An array that a kernel only reads; memory-mapped and immutable ones are welcome."""
    return _types.Array(getattr(_types, kind), dimensions, "C", readonly=True)


def writable(kind: str, dimensions: int = 1) -> Any:
    """An array that a kernel writes to."""
    return _types.Array(getattr(_types, kind), dimensions, "C")


def kernel(signature: Any) -> Callable[[Function], Function]:
    """Compile for one signature, releasing the interpreter lock."""
    decorate: Callable[[Function], Function] = _numba.njit(signature, nogil=True, cache=True)
    return decorate


def inline(function: Function) -> Function:
    """Compile a small helper into its callers."""
    decorated: Function = _numba.njit(inline="always")(function)
    return decorated
