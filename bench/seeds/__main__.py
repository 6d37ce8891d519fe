"""`make bench-seeds`: three seeds against three of the same recipe, and against three of a real change, judged by `umsicht compare`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from bench.common import ROOT, Bench
from bench.program import umsicht

PROJECT = ROOT / "build" / "bench" / "seeds"
RECIPE = """\
name: {name}
preset: tiny
seed: {seed}
model: {{d_model: 64, seq_len: 64}}
train:
  budget: {{steps: 240}}
  global_batch_tokens: 1024
  validation: {{count: 6}}
  checkpoint: {{every_steps: 240}}
  optimizer: {{kind: {optimizer}}}
check: {{rehearsal_tokens: 1000000}}
"""
"""A run this short may start without its rehearsal; the comparison is what is measured here."""

SAME, CHANGED = range(3, 6), range(3)


def trained(name: str, optimizer: str, seed: int) -> Path:
    """The folder of a finished run."""
    recipe = PROJECT / f"{name}-{seed}.yaml"
    recipe.write_text(RECIPE.format(name=name, seed=seed, optimizer=optimizer), "utf-8")
    answer = umsicht("run", str(recipe), "--out", str(PROJECT))
    return Path(answer["run"])


def table(comparison: dict[str, Any]) -> str:
    """Each contest as a row of Markdown."""
    lines = [
        "| at equal | first group | second group | difference | interval | decision |",
        "|---|---|---|---|---|---|",
    ]
    for contest in comparison["contests"]:
        sides = [f"{side['mean']:.4f} (n = {len(side['values'])})" for side in (contest["a"], contest["b"])]
        difference = contest["difference"]
        interval = f"{difference['low']:+.4f} … {difference['high']:+.4f}"
        lines.append(
            f"| {contest['at']} | {sides[0]} | {sides[1]} | {difference['estimate']:+.4f} | {interval} | {contest['text']} |"
        )
    return "\n".join(lines)


def decided(comparison: dict[str, Any]) -> int:
    """How many contests ended with a winner."""
    return sum(contest["difference"]["decided"] for contest in comparison["contests"])


def main() -> None:
    """Train nine small models, compare, report."""
    shutil.rmtree(PROJECT, ignore_errors=True)
    PROJECT.mkdir(parents=True)
    bench = Bench(
        "seeds",
        "Nine small models on the starter text: one recipe with six seeds, and one change (AdamW in Muon's place) with three. "
        "Runs of one recipe must not beat each other; a real change must be decided, with an interval, at equal tokens and equal time.",
    )
    base = [trained("base", "muon", seed) for seed in CHANGED]
    again = [trained("base", "muon", seed) for seed in SAME]
    changed = [trained("adamw", "adamw", seed) for seed in CHANGED]
    names = [",".join(map(str, runs)) for runs in (base, again)]
    nothing = umsicht(
        "compare", *map(str, base + again), "--group", f"a={names[0]}", "--group", f"b={names[1]}"
    )
    real = umsicht("compare", *map(str, base + changed))
    bench.figure("same recipe, other seeds: winners called", decided(nothing), "== 0")
    bench.figure(
        "one real change: contests decided", decided(real), ">= 1", note=f"of {len(real['contests'])}"
    )
    bench.section(f"## The same recipe twice\n\n{table(nothing)}")
    bench.section(f"## One change: train.optimizer.kind muon → adamw\n\n{table(real)}")
    bench.extra.update(same=nothing, changed=real)
    bench.finish()


if __name__ == "__main__":
    main()
