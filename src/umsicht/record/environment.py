"""What ran, and on what: code version, libraries, hardware. Recorded with every artifact and run; never part of an id."""

from __future__ import annotations

import functools
import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

LIBRARIES = (
    "torch",
    "numpy",
    "tokenizers",
    "tiktoken",
    "safetensors",
    "pydantic",
    "dask",
    "polars",
    "pyarrow",
    "numba",
)


def _git(*arguments: str) -> str | None:
    folder = Path(__file__).resolve().parent
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


@functools.cache
def code_version() -> dict[str, Any]:
    """Version of Umsicht, and where it runs from a git checkout the commit and whether files were changed since."""
    from umsicht import __version__

    commit = _git("rev-parse", "HEAD")
    changed = bool(_git("status", "--porcelain", "--untracked-files=no", "--", ".")) if commit else None
    return {"umsicht": __version__, "git_commit": commit, "git_changed": changed}


@functools.cache
def environment() -> dict[str, Any]:
    """Python and library versions."""
    versions = {}
    for name in LIBRARIES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {"python": platform.python_version(), "platform": platform.platform(), "libraries": versions}


def _cpu_info() -> tuple[str, list[str]]:
    """Processor name and the vector extensions that matter for training."""
    name = platform.processor() or platform.machine()
    flags: list[str] = []
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return name, flags
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            name = value.strip()
        elif key.strip() == "flags":
            wanted = ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "amx_tile")
            flags = [flag for flag in wanted if flag in value.split()]
            break
    return name, flags


@functools.cache
def hardware() -> dict[str, Any]:
    """Processor, cores this process may use, vector extensions, memory in bytes."""
    name, flags = _cpu_info()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    try:
        memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        memory_bytes = 0
    return {"cpu": name, "cores": cores, "cpu_features": flags, "memory_bytes": memory_bytes}
