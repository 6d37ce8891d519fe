"""`make bench-quickstart`: run the quickstart from nothing, time it, and hold its model against xz and the 5-gram."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from typing import Any

from bench.common import ROOT, Bench

PROJECT = ROOT / "build" / "bench" / "quickstart"


def run() -> tuple[dict[str, Any], float]:
    """The result of one whole run in an empty folder, and its wall time in seconds."""
    shutil.rmtree(PROJECT, ignore_errors=True)
    recipe = ROOT / "examples" / "quickstart.yaml"
    command = [sys.executable, "-m", "umsicht", "run", str(recipe), "--out", str(PROJECT), "--json"]
    began = time.monotonic()
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, "UMSICHT_LANG": "en"}
    )
    return json.loads(done.stdout), time.monotonic() - began


def again() -> float:
    """Wall time in seconds of the same command on the finished project."""
    recipe = ROOT / "examples" / "quickstart.yaml"
    began = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "umsicht", "run", str(recipe), "--out", str(PROJECT), "--json"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return time.monotonic() - began


def table(evaluation: dict[str, Any]) -> str:
    """Scores beside the baselines, as Markdown."""
    lines = [
        "| slice | bytes | model | xz -9 | xz with the training text | 5-gram |",
        "|---|---|---|---|---|---|",
    ]
    for name, score in sorted(evaluation["slices"].items()):
        base = evaluation["baselines"][name]
        figures = [score["bpb"], base["xz"], base["xz_context"], base["ngram5"]]
        best = min(figures)
        cells = [f"**{value:.3f}**" if value == best else f"{value:.3f}" for value in figures]
        lines.append(f"| {name} | {score['bytes']:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measure and report."""
    bench = Bench(
        "quickstart",
        "The main job on this machine: text to a trained, evaluated, recorded model in one command.",
    )
    result, seconds = run()
    evaluation = result["evaluation"]
    n = len(evaluation["slices"])
    bench.figure("run, wall", seconds / 60, "<= 8", unit="min")
    bench.figure("slices", n)
    bench.figure("share of slices better than xz -9", len(evaluation["beats"]["xz"]) / n, ">= 1")
    bench.figure("share of slices better than the 5-gram", len(evaluation["beats"]["ngram5"]) / n, ">= 0.5")
    bench.figure("bits per byte, all slices", evaluation["all"]["bpb"])
    bench.figure("the same command again, wall", again(), "<= 60", unit="s")
    bench.section(
        f"Bits per byte after {evaluation['tokens']:,} tokens (the best of a row is bold):\n\n{table(evaluation)}"
    )
    bench.finish()


if __name__ == "__main__":
    main()
