"""`umsicht doctor`: what this machine has."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from umsicht.cli.output import human, print_json, print_table
from umsicht.record.environment import code_version, environment, hardware
from umsicht.words import t

EXTRAS = {
    "corpus": (
        "dask",
        "distributed",
        "polars",
        "pyarrow",
        "numba",
        "xxhash",
        "resiliparse",
        "fastwarc",
        "ftfy",
    ),
    "dashboard": ("starlette", "uvicorn", "jinja2"),
}


def doctor(*, json: bool = False) -> int:
    """What this machine has, and what is known not to work together.

    Parameters
    ----------
    json
        Print JSON.
    """
    facts = _facts()
    problems = _problems(facts)
    if json:
        print_json({"facts": facts, "problems": problems})
        return 1 if problems else 0
    print_table(("", ""), [(key, value) for key, value in facts.items()])
    for problem in problems:
        print(f"! {problem}")
    if not problems:
        print(t("cli.doctor.fine"))
    return 1 if problems else 0


def _facts() -> dict[str, Any]:
    import torch

    machine = hardware()
    facts: dict[str, Any] = {
        "umsicht": code_version()["umsicht"],
        "python": environment()["python"],
        "platform": environment()["platform"],
        "torch": torch.__version__,
        "cpu": machine["cpu"],
        "cores": machine["cores"],
        "torch threads": torch.get_num_threads(),
        "cpu features": " ".join(machine["cpu_features"]) or "—",
        "memory": human(machine["memory_bytes"], "B"),
        "disk free here": human(shutil.disk_usage(Path.cwd()).free, "B"),
        "cuda": _cuda(torch),
        "mps": torch.backends.mps.is_available(),
        "distributed": ", ".join(_backends(torch)) or t("cli.doctor.missing"),
        "compiler": shutil.which(os.environ.get("CXX", "g++")) is not None,
        "npm": _npm(),
    }
    for extra, modules in EXTRAS.items():
        missing = [name for name in modules if importlib.util.find_spec(name) is None]
        facts[f"extra [{extra}]"] = (
            f"{t('cli.doctor.missing')}: {', '.join(missing)}" if missing else t("cli.doctor.ok")
        )
    return facts


def _cuda(torch: Any) -> str:
    if not torch.cuda.is_available():
        return "—"
    properties = torch.cuda.get_device_properties(0)
    return f"{torch.cuda.device_count()} × {properties.name}, {human(properties.total_memory, 'B')}"


def _backends(torch: Any) -> list[str]:
    distributed = torch.distributed
    if not distributed.is_available():
        return []
    tests = {"gloo": distributed.is_gloo_available, "nccl": distributed.is_nccl_available}
    return [name for name, test in tests.items() if test()]


def _npm() -> str:
    if shutil.which("npm") is None:
        return "—"
    try:
        done = subprocess.run(["npm", "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "—"
    return done.stdout.strip()


def _problems(facts: dict[str, Any]) -> list[str]:
    problems = []
    if tuple(int(part) for part in facts["torch"].split("+")[0].split(".")[:2]) < (2, 11):
        problems.append(f"torch {facts['torch']} is older than 2.11: pip install -U 'torch>=2.11'")
    if facts["torch threads"] > facts["cores"]:
        problems.append(
            f"torch uses {facts['torch threads']} threads on {facts['cores']} cores: set OMP_NUM_THREADS={facts['cores']}"
        )
    if not facts["compiler"]:
        problems.append("No C++ compiler: torch.compile falls back to eager code (Debian: apt install g++).")
    free = shutil.disk_usage(Path.cwd()).free
    if free < 2_000_000_000:
        problems.append(
            f"Only {human(free, 'B')} free on this disk; a small run with checkpoints needs about 2 GB."
        )
    return problems
