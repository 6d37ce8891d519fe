"""`make bench-parity`: losses, adapters, exports and imports against the libraries that others use."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.common import ROOT, Bench
from bench.parity import environment

ABOUT = (
    "Our losses, gradients, adapters and files against transformers, TRL, PEFT and gguf, on small models in float32 whose every weight "
    "is away from zero; our bits per byte against lm-evaluation-harness; our rating arithmetic against krippendorff, scikit-learn, choix, "
    "statsmodels and scipy. All of it offline; exports are opened by the other library, imports come from it."
)
GROUPS = (
    "exports", "imports", "gguf", "adapters", "supervised", "preference", "fresh", "harness", "ratings"
)  # fmt: skip
LIMIT_S = 1_800.0
"""All groups together; minutes on a quiet machine."""


def measured(python: Path) -> Iterator[dict[str, Any]]:
    """One entry a group, as the oracles' interpreter prints it; what it says besides goes to a file that is named on a failure."""
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    # one thread: two of them wait for each other at every small product, many times over on a busy machine
    threads = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", "TOKENIZERS_PARALLELISM": "false"}
    log = ROOT / "build" / "bench" / "parity.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as noise:
        process = subprocess.Popen(
            [str(python), "-W", "ignore", "-m", "bench.parity.oracles"],
            cwd=ROOT,
            env={**os.environ, **offline, **threads},
            stdout=subprocess.PIPE,
            stderr=noise,
            text=True,
        )
        timer = threading.Timer(LIMIT_S, process.kill)
        timer.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("FIGURES "):
                    entry: dict[str, Any] = json.loads(line.removeprefix("FIGURES "))
                    yield entry
            if process.wait() != 0:
                print(f"the oracles ended with {process.returncode}; see {log.relative_to(ROOT)}")
        finally:
            timer.cancel()
            process.kill()


def main() -> None:
    """Measure every group and write the page."""
    from bench.parity.limits import limit_of

    bench = Bench("parity", ABOUT)
    python = environment.python()
    missing = set(GROUPS)
    for entry in measured(python):
        if "error" in entry:
            print(entry["error"])
            continue
        missing.discard(entry["group"])
        for name, value in entry["figures"].items():
            bench.figure(name, value, limit_of(name))
        print(f"  {entry['group']}: {entry['took_s']} s", flush=True)
    for group in sorted(missing):
        bench.figure(f"{group}: measured", None, ">= 1", note="the oracle failed; see its output")
    bench.section("Oracles: " + ", ".join(environment.PINS) + ".")
    bench.finish()


if __name__ == "__main__":
    main()
