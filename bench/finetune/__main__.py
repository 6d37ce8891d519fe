"""`make bench-finetune`: one recipe from text to a rated, exported chat model, and a base made poor on purpose.

`FINETUNE_BASE` names a project that was run already (its newest base is used); without it the recipe is run from the start.
"""

from __future__ import annotations

import math
import os
import tempfile
from pathlib import Path

from bench.common import QUICK, Bench
from bench.finetune import walk

ABOUT = (
    "One recipe: base pretrained and evaluated, then SFT and DPO; outputs of base and tuned model rated through files by two scripted raters "
    "with a known preference; the tuned model exported in two formats and reloaded; a base that was hardly trained refused."
)


def main() -> None:
    """Walk, measure, write the page."""
    bench = Bench("finetune", ABOUT)
    preset = "tiny" if QUICK else "quickstart"
    given = os.environ.get("FINETUNE_BASE")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        runs = walk.tuned(folder, given, 300) if given else walk.walked(folder, preset, 60 if QUICK else 300)
        for method, metric in (("sft", "val/sft/loss"), ("dpo", "val/dpo/loss")):
            values = [float(row[metric]) for row in runs[method].metrics().rows if metric in row]
            bench.figure(f"{method}: held-out loss before", values[0])
            bench.figure(f"{method}: held-out loss, best", min(values[1:]), f"<= {values[0]:.4f}")
        first = next(row["train/loss"] for row in runs["dpo"].metrics().rows if "train/loss" in row)
        bench.figure("dpo: first loss against ln 2", abs(first - math.log(2)), "<= 1e-06")
        result = walk.rated(runs["base"], runs["dpo"], "walk")
        bench.figure("ratings: known preference found", float(_is_found(result, runs["dpo"].name)), "== 1")
        bench.figure(
            "ratings: win rate of the preferred (scripted: 0.82)", _win_rate(result, runs["dpo"].name)
        )
        for label, value in walk.exported(runs["dpo"], folder).items():
            bench.figure(label, value, "<= 1e-05")
        if not given:
            code, said = walk.refused(folder, preset)
            bench.figure("poor base: exit code", code, "== 3")
            bench.figure(
                "poor base: advice names training", float("rain longer" in said or "Pretrain" in said), "== 1"
            )
    bench.finish()


def _is_found(result: dict[str, object], name: str) -> bool:
    return result["decision"] == "prefers" and str(result["better"]).startswith(name)


def _win_rate(result: dict[str, object], name: str) -> float | None:
    duels = result["duels"]
    assert isinstance(duels, list)
    for duel in duels:
        rate = float(duel["win_rate"])
        return rate if str(duel["first"]).startswith(name) else 1 - rate
    return None


if __name__ == "__main__":
    main()
