"""`make bench-parallel`: what a second process is worth, and how long training stands still for a sharded checkpoint.

Three ways of computing the same batches in turn, three times over: one process with one thread, one with two, two processes with one thread
each. The figures are ratios of the medians inside this run.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from typing import Any

from bench.common import QUICK, ROOT, Bench

REPEATS = 1 if QUICK else 3
STEPS = 4 if QUICK else 6


def run(processes: int, threads: int, **wanted: Any) -> dict[str, float]:
    """One training in processes of its own; its figures."""
    start = [sys.executable]
    if processes > 1:
        start += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": str(threads),
        "OMP_WAIT_POLICY": "PASSIVE",
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
    }
    argument = json.dumps({"steps": STEPS, "threads": threads, **wanted})
    done = subprocess.run(
        [*start, str(ROOT / "bench" / "parallel" / "worker.py"), argument],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=900,
    )
    line = next((one for one in done.stdout.splitlines() if one.startswith("RESULT ")), None)
    if done.returncode or line is None:
        raise RuntimeError(done.stderr[-3000:])
    found: dict[str, float] = json.loads(line.removeprefix("RESULT "))
    return found


def main() -> None:
    bench = Bench(
        "parallel", "Data-parallel efficiency on one machine, and the stall of sharded checkpoints."
    )
    ways = {"1 process, 1 thread": (1, 1), "1 process, 2 threads": (1, 2), "2 processes, 1 thread": (2, 1)}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
    for _ in range(REPEATS):
        for name, (processes, threads) in ways.items():
            found[name].append(run(processes, threads))
            print(f"  {name}: {found[name][-1]['tokens_per_s']:,.0f} tokens/s", flush=True)
    rate = {name: statistics.median(one["tokens_per_s"] for one in runs) for name, runs in found.items()}
    for name, runs in found.items():
        cpu = statistics.median(one["cpu_s"] for one in runs)
        bench.figure(name, rate[name], unit="tokens/s", note=f"{cpu:.1f} s CPU")
    alone, threads, two = rate.values()
    bench.figure("two processes ÷ one with two threads", two / threads, ">= 0.9")
    bench.figure("two processes ÷ one with one thread", two / alone, ">= 1.33")
    share = statistics.median(one["communication_share"] for one in found["2 processes, 1 thread"])
    bench.figure("share of a step spent in exchanges", share)
    saved = run(2, 1, parallel={"shard": 2}, save=3 if QUICK else 5, steps=2, rows=4)
    bench.figure("sharded save, training waits", saved["synchronous_s"], unit="s")
    bench.figure("sharded save, in the background", saved["asynchronous_s"], unit="s")
    bench.figure(
        "stall in the background ÷ waiting", saved["asynchronous_s"] / saved["synchronous_s"], "<= 0.1"
    )
    bench.finish()


if __name__ == "__main__":
    main()
