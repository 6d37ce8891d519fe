"""The shim that makes faults at an exact place; compiled where a C compiler is, else its scenarios are skipped with that reason."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from bench.survival.registry import SkippedError


@cache
def shim(folder: Path) -> Path:
    """The compiled shim. Raises SkippedError where it cannot be made."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if sys.platform != "linux" or compiler is None:
        raise SkippedError("needs Linux and a C compiler for faults at an exact system call")
    made = folder / "shim.so"
    source = Path(__file__).with_name("shim.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(made), str(source), "-ldl"], check=True)
    return made


def kills(folder: Path, faults: list[tuple[str, str, int, bool]]) -> dict[str, str]:
    """Environment in which a process dies at the given calls: (call, substring of the name, how many-th, only once)."""
    library = shim(folder)
    lines = []
    for number, (call, part, nth, once) in enumerate(faults):
        token = folder / f"fault-{number}"
        if once:
            token.touch()
        lines.append(f"{call} {part} {nth} {token if once else '-'}")
    plan = folder / "faults"
    plan.write_text("\n".join(lines) + "\n")
    return {"LD_PRELOAD": str(library), "FAULT_AT": str(plan)}
