"""`make bench-quickstart`: run the quickstart from nothing, time it, and hold its model against xz and the 5-gram."""

from __future__ import annotations

import shutil
import time
from typing import Any

from bench.common import ROOT, Bench
from bench.program import umsicht

PROJECT = ROOT / "build" / "bench" / "quickstart"
RECIPE = ROOT / "examples" / "quickstart.yaml"


def walk() -> tuple[dict[str, Any], float]:
    """The result of the run, and its wall time in seconds."""
    began = time.monotonic()
    result = umsicht("run", str(RECIPE), "--out", str(PROJECT))
    return result, time.monotonic() - began


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
    shutil.rmtree(PROJECT, ignore_errors=True)
    result, seconds = walk()
    evaluation = result["evaluation"]
    n = len(evaluation["slices"])
    bench.figure("run, wall", seconds / 60, "<= 8", unit="min")
    bench.figure("slices", n)
    bench.figure("share of slices better than xz -9", len(evaluation["beats"]["xz"]) / n, ">= 1")
    bench.figure("share of slices better than the 5-gram", len(evaluation["beats"]["ngram5"]) / n, ">= 0.5")
    bench.figure("bits per byte, all slices", evaluation["all"]["bpb"])
    bench.figure("the same command again, wall", walk()[1], "<= 60", unit="s")
    bench.section(
        f"Bits per byte after {evaluation['tokens']:,} tokens (the best of a row is bold):\n\n{table(evaluation)}"
    )
    bench.finish()


if __name__ == "__main__":
    main()
