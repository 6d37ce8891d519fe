"""Fifty records of 100,000 rows summarised: seconds and peak memory, in a process of its own."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from bench.common import QUICK, Bench

RUNS, ROWS = 50, 100_000


def write_record(path: Path, rows: int) -> None:
    """A record as the trainer writes it: about 160 bytes a row, a validation every 500, three spikes, one NaN."""
    rng = np.random.default_rng(0)
    loss = 2.5 + 5 / np.sqrt(1 + np.arange(rows) / 50) + rng.normal(0, 0.05, rows)
    loss[[rows // 3, rows // 2, rows - 900]] += 3
    with path.open("w") as file:
        for step in range(1, rows + 1):
            row = {
                "step": step,
                "tokens": step * 4096,
                "time": 1.7e9 + step * 0.25,
                "segment": 0,
                "train/loss": "NaN" if step == rows // 4 else round(float(loss[step - 1]), 6),
                "train/grad_norm": 0.512345,
                "train/lr": 0.000312345,
                "train/tokens_per_s": 16384.5,
            }
            if step % 500 == 0:
                row |= {"val/all/loss": round(float(loss[step - 1]) + 0.1, 6), "val/all/bpb": 1.2345}
            file.write(json.dumps(row, separators=(",", ":")) + "\n")


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _peak_bytes() -> int:
    """Peak of this process and of each of its two workers, added up: an upper bound of what was held at once."""
    own, child = (
        resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return (own + 2 * child) * 1024


def measure(folder: Path) -> None:
    """Run in the child: summarise and print seconds, peak memory and what was found."""
    from umsicht.diagnose.summary import summarise_all

    began, cpu = time.perf_counter(), time.process_time()
    made = summarise_all(sorted(folder.iterdir()))
    figures = {
        "wall_s": time.perf_counter() - began,
        "cpu_s": time.process_time() - cpu + _children_cpu(),
        "peak_bytes": _peak_bytes(),
        "rows": sum(one.rows for one in made),
        "nonfinite": sum(one.nonfinite for one in made),
        "spikes": min(one.spikes for one in made),
    }
    print(json.dumps(figures))


def figures_of(bench: Bench) -> None:
    """The bars of the fast summary. The fifty records are links to one file: every one of them is read and parsed."""
    runs = 5 if QUICK else RUNS
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "runs"
        root.mkdir()
        original = Path(name) / "record.jsonl"
        write_record(original, ROWS)
        for number in range(runs):
            folder = root / f"run-{number:02d}"
            folder.mkdir()
            os.link(original, folder / "metrics.jsonl")
        done = subprocess.run(
            [sys.executable, "-m", "bench.curves.summaries", str(root)],
            capture_output=True,
            text=True,
            check=True,
        )
        found = json.loads(done.stdout)
    share = runs / RUNS
    note = f"{found['rows']:,} rows; CPU {found['cpu_s']:.1f} s"
    right = found["rows"] == runs * ROWS and found["nonfinite"] == runs and found["spikes"] >= 3
    bench.figure(
        f"{runs} runs of 100,000 rows summarised, wall time",
        found["wall_s"],
        f"<= {5 * share:g}",
        unit="s",
        note=note,
    )
    bench.figure("peak memory of it", found["peak_bytes"] / 1e9, "<= 1", unit="GB")
    bench.figure("every row, NaN and spike of them counted", float(right), "== 1")


if __name__ == "__main__":
    measure(Path(sys.argv[1]))
