"""`make bench-parity`: losses, adapters, exports and imports against the libraries that others use."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from bench.common import ROOT, Bench
from bench.parity import environment

ABOUT = (
    "Our losses, gradients, adapters and files against transformers, TRL, PEFT and gguf, on small models in float32 whose every weight "
    "is away from zero. All of it offline; exports are opened by the other library, imports come from it."
)
GROUPS = ("exports", "imports", "gguf", "adapters", "supervised", "preference", "fresh")


def measured(python: Path, group: str) -> dict[str, float]:
    """The figures of one group, computed by the oracles' interpreter; empty where it failed (its output is shown)."""
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    done = subprocess.run(
        [str(python), "-W", "ignore", "-m", "bench.parity.oracles", group],
        cwd=ROOT,
        env={**os.environ, **offline},
        capture_output=True,
        text=True,
    )
    for line in reversed(done.stdout.splitlines()):
        if line.startswith("FIGURES "):
            figures: dict[str, float] = json.loads(line.removeprefix("FIGURES "))
            return figures
    print(done.stdout[-2000:], done.stderr[-2000:])
    return {}


def main() -> None:
    """Measure every group and write the page."""
    from bench.parity.limits import limit_of

    bench = Bench("parity", ABOUT)
    python = environment.python()
    for group in GROUPS:
        figures = measured(python, group)
        if not figures:
            bench.figure(f"{group}: measured", None, ">= 1", note="the oracle failed; see its output")
        for name, value in figures.items():
            bench.figure(name, value, limit_of(name))
    bench.section("Oracles: " + ", ".join(environment.PINS) + ".")
    bench.finish()


if __name__ == "__main__":
    main()
