"""`make bench-grpo`: a small model that adds two numbers as well as its teacher did learns to do it better, from the reward alone.

The numbers have three digits from 0 to 4, so that no digit is carried: a small model learns that in two minutes. The base is taught sums
by imitation of a teacher who gets one digit wrong in four of ten, and answers as it was taught. GRPO then sees other sums, and is scored
on sums that neither stage saw: by answers drawn as in training (four to each problem), and by the likeliest answer. Three seeds; the divergence from
the reference is reported beside each. A judge trained on pairs of right and wrong answers takes the place of the program once.
"""

from __future__ import annotations

import math
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
STEPS = 6 if QUICK else 24
TAUGHT = 4_000
"""Sums that the base is taught."""
COMPARED = 4_000
"""Further sums in the pairs that the judge learns from; the other 7,625 are for the reward."""
WRONG = 0.4
"""Share of the taught sums with a wrong digit."""


def sums() -> list[tuple[int, int]]:
    """All pairs of numbers of three digits from 0 to 4, shuffled once."""
    numbers = [int(f"{a}{b}{c}") for a in range(5) for b in range(5) for c in range(5)]
    found = [(a, b) for a in numbers for b in numbers]
    random.Random(0).shuffle(found)
    return found


def asked(a: int, b: int) -> str:
    """The problem as the model reads it."""
    return f"{a:03}+{b:03}"


def slip(rng: random.Random, total: int) -> int:
    """The sum with one of its three digits replaced by another."""
    digits = [int(digit) for digit in f"{total:03}"]
    place = rng.randrange(3)
    digits[place] = (digits[place] + rng.randrange(1, 9)) % 10
    return int("".join(map(str, digits)))


def write(folder: Path) -> None:
    """`taught.jsonl` (conversations, some wrong), `problems.jsonl`, `pairs.jsonl` (a right and a wrong sum, none of the problems)."""
    rng = random.Random(1)
    paired, others = sums()[: TAUGHT + COMPARED], sums()[TAUGHT + COMPARED :]
    taught = paired[:TAUGHT]
    told = [slip(rng, a + b) if rng.random() < WRONG else a + b for a, b in taught]
    rows: list[dict[str, Any]] = [
        {
            "messages": [
                {"role": "user", "content": asked(a, b)},
                {"role": "assistant", "content": f"{answer:03}"},
            ]
        }
        for (a, b), answer in zip(taught, told, strict=True)
    ]
    write_rows(folder / "taught.jsonl", rows)
    write_rows(
        folder / "problems.jsonl", [{"question": asked(a, b), "answer": f"{a + b:03}"} for a, b in others]
    )
    wrong = [slip(rng, a + b) for a, b in paired]
    pairs = zip(paired, wrong, strict=True)
    write_rows(
        folder / "pairs.jsonl",
        [{"prompt": asked(a, b), "chosen": f"{a + b:03}", "rejected": f"{w:03}"} for (a, b), w in pairs],
    )


def stage(base: Run, folder: Path, **settings: Any) -> StageResult:
    """One stage on the model of `base`."""
    plain = {"patience": None, "validation_share": 0.05, **settings}
    return run_stage(StageSettings(**plain), base, root=folder, waivers=WAIVED)


def curve(result: StageResult, name: str) -> list[float]:
    """A figure of the stage's record, in order."""
    return [float(row[name]) for row in result.run.metrics().rows if name in row]


def taught(folder: Path) -> StageResult:
    """The base: imitation."""
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


IMITATION = 100 if QUICK else 1_000


def not_below(value: float) -> str:
    """The bar "not lower than before", with as many digits as a page shows, never rounded up."""
    return f">= {math.floor(value * 1e4) / 1e4:.4f}"


def main() -> None:
    """Measure and write the page."""
    bench = Bench("grpo", __doc__ or "")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder)
        base = taught(folder).run
        rises = []
        for seed in SEEDS:
            result = stage(
                base, folder, data=["problems.jsonl"], name=f"grpo-{seed}", method="grpo", reward="exact",
                steps=STEPS, batch_rows=32, group=8, max_new_tokens=5, seed=seed, validations=3,
            )  # fmt: skip
            drawn, likeliest = (curve(result, f"val/grpo/{name}") for name in ("reward", "likeliest_reward"))
            rises.append(drawn[-1] - drawn[0])
            bench.figure(f"seed {seed}: held-out reward of drawn answers before", drawn[0])
            bench.figure(f"seed {seed}: after {STEPS} updates", drawn[-1], f">= {drawn[0] + 0.02:.3f}")
            bench.figure(f"seed {seed}: held-out reward of the likeliest answer before", likeliest[0])
            bench.figure(f"seed {seed}: the likeliest after", likeliest[-1], not_below(likeliest[0]))
            bench.figure(
                f"seed {seed}: divergence from the reference", curve(result, "grpo/kl")[-1], unit="nats/token"
            )
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
        epochs=3,
        rate=1e-3,
        batch_rows=32,
        validations=2,
    )
    bench.figure("judge: held-out pairs told apart", curve(judge, "val/reward/accuracy")[-1], ">= 0.8")
    result = stage(
        base, folder, data=["problems.jsonl"], name="judged", method="grpo", reward="model", reward_model="judge",
        steps=STEPS // 2, batch_rows=32, group=8, max_new_tokens=5, validations=2,
    )  # fmt: skip
    given = curve(result, "val/grpo/reward")
    bench.figure("judge's reward on held-out problems: rise", given[-1] - given[0], ">= 0")
    bench.figure("judged: divergence from the reference", curve(result, "grpo/kl")[-1], unit="nats/token")


if __name__ == "__main__":
    main()
