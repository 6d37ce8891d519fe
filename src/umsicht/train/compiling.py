"""Whether compiling the trunk pays, and where compiled code is kept, so that only the first run of a shape pays for it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

# Measured on two cores: a cold compile costs tens of seconds and saves about an eighth of a step (docs/measured/log.md).
PAYS_AFTER_S = 900.0


def cache_folder() -> Path:
    """Where compiled code is kept: TORCHINDUCTOR_CACHE_DIR, else `umsicht/inductor` in the user's cache folder."""
    named = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "umsicht" / "inductor"


def can_compile(device: str) -> bool:
    """A processor needs a C++ compiler; GPUs bring their own."""
    return device != "cpu" or any(shutil.which(name) for name in ("g++", "clang++", "c++"))


def choose(wanted: str, device: str, expected_s: float) -> bool:
    """`on` and `off` are taken at their word; `auto` compiles where the run is long enough for it and a compiler is there."""
    if wanted != "auto":
        return wanted == "on"
    return can_compile(device) and (device == "cuda" or (device == "cpu" and expected_s >= PAYS_AFTER_S))


def keep_cache() -> None:
    """Point the compiler at the kept cache; call before the first compilation."""
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache_folder()))
