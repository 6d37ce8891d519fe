"""`make bench-grpo`: a small model that can add two numbers some of the time learns to do it more often, from the reward alone.

The numbers have three digits from 0 to 4, so that no digit is carried: a small model learns that in a minute. The base is taught sums
by imitation and stopped while it still errs. GRPO then sees other sums, and is scored on sums that neither stage saw. Three seeds; the
divergence from the reference is reported beside each. A judge trained on pairs of right and wrong answers takes the place of the
program once.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

from bench.common import QUICK, Bench
from bench.finetune.project import base_run, config, write_rows
from umsicht.findings import Waiver
from umsicht.finetune import run_stage
from umsicht.finetune.stage import StageResult
from umsicht.model import build
from umsicht.recipe.finetune import StageSettings
from umsicht.record import Run

WAIVED = (Waiver("FINETUNE/base-poor", "a model for one task: it never read text"),)
SEEDS = (0,) if QUICK else (0, 1, 2)
STEPS = 10 if QUICK else 40
TAUGHT = 4_000
"""Sums that the base is taught; the other 11,625 are for the reward."""


def sums() -> list[tuple[int, int]]:
    """All pairs of numbers of three digits from 0 to 4, shuffled once."""
    numbers = [int(f"{a}{b}{c}") for a in range(5) for b in range(5) for c in range(5)]
    found = [(a, b) for a in numbers for b in numbers]
    random.Random(0).shuffle(found)
    return found


def asked(a: int, b: int) -> str:
    """The problem as the model reads it."""
    return f"{a:03}+{b:03}"


def write(folder: Path) -> None:
    """`taught.jsonl` (conversations), `problems.jsonl`, `pairs.jsonl` (a right and a wrong sum of the taught ones)."""
    rng = random.Random(1)
    taught, others = sums()[:TAUGHT], sums()[TAUGHT:]
    rows: list[dict[str, Any]] = [
        {
            "messages": [
                {"role": "user", "content": asked(a, b)},
                {"role": "assistant", "content": f"{a + b:03}"},
            ]
        }
        for a, b in taught
    ]
    write_rows(folder / "taught.jsonl", rows)
    write_rows(
        folder / "problems.jsonl", [{"question": asked(a, b), "answer": f"{a + b:03}"} for a, b in others]
    )
    wrong = [(a + b + rng.choice((1, 2, 3, 10, 20, 100, 200))) % 1000 for a, b in taught]
    pairs = zip(taught, wrong, strict=True)
    write_rows(
        folder / "pairs.jsonl",
        [{"prompt": asked(a, b), "chosen": f"{a + b:03}", "rejected": f"{w:03}"} for (a, b), w in pairs],
    )


def stage(base: Run, folder: Path, **settings: Any) -> StageResult:
    """One stage on the model of `base`."""
    plain = {"patience": None, "validation_share": 0.03, **settings}
    return run_stage(StageSettings(**plain), base, root=folder, waivers=WAIVED)


def curve(result: StageResult, name: str) -> list[float]:
    """A figure of the stage's record, in order."""
    return [float(row[name]) for row in result.run.metrics().rows if name in row]


def taught(folder: Path) -> StageResult:
    """The base: imitation, stopped early."""
    model = build(config(d_model=96, n_layers=2, n_heads=3, n_kv_heads=3, d_ff=384, seq_len=96), seed=0)
    base = base_run(folder, model)
    return stage(
        base,
        folder,
        data=["taught.jsonl"],
        method="sft",
        steps=IMITATION,
        rate=2e-3,
        batch_rows=16,
        validations=2,
    )


IMITATION = 100 if QUICK else 400


def main() -> None:
    """Measure and write the page."""
    bench = Bench("grpo", __doc__ or "")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder)
        base = taught(folder).run
        rises, before = [], 0.0
        for seed in SEEDS:
            result = stage(
                base, folder, data=["problems.jsonl"], name=f"grpo-{seed}", method="grpo", reward="exact",
                steps=STEPS, batch_rows=16, group=8, max_new_tokens=5, seed=seed, validations=4,
            )  # fmt: skip
            held = curve(result, "val/grpo/reward")
            before = held[0]
            rises.append(held[-1] - held[0])
            bench.figure(f"seed {seed}: held-out reward before", held[0])
            bench.figure(f"seed {seed}: held-out reward after", held[-1], f">= {held[0] + 0.02:.3f}")
            bench.figure(
                f"seed {seed}: divergence from the reference", curve(result, "grpo/kl")[-1], unit="nats/token"
            )
        bench.figure("held-out reward of the base", before)
        bench.figure("smallest rise over the seeds", min(rises), ">= 0.02")
        judged(bench, base, folder)
    bench.finish()


def judged(bench: Bench, base: Run, folder: Path) -> None:
    """The same with a reward model: what it gives is one thing, how many sums are right another."""
    judge = stage(
        base,
        folder,
        data=["pairs.jsonl"],
        name="judge",
        method="reward",
        epochs=1,
        batch_rows=32,
        validations=2,
    )
    bench.figure("judge: held-out pairs told apart", curve(judge, "val/reward/accuracy")[-1], ">= 0.8")
    result = stage(
        base, folder, data=["problems.jsonl"], name="judged", method="grpo", reward="model", reward_model="judge",
        steps=STEPS // 2, batch_rows=16, group=8, max_new_tokens=5, validations=2,
    )  # fmt: skip
    given = curve(result, "val/grpo/reward")
    bench.figure("judge's reward on held-out problems: rise", given[-1] - given[0], ">= 0")
    bench.figure("judged: divergence from the reference", curve(result, "grpo/kl")[-1], unit="nats/token")


if __name__ == "__main__":
    main()
