"""Fifty long runs, written as the trainer writes them: one JSON object a line, five dense series, validation of four slices, planted spikes."""

from __future__ import annotations

import math
import random
from pathlib import Path

import numpy as np
import orjson

from umsicht.record import Run

SLICES = ("code.en", "encyclopedia.de", "encyclopedia.en", "prose.fr")
SPIKES = (1_733, 20_111, 41_987, 73_331, 99_003)


def write_run(project: Path, number: int, steps: int) -> Path:
    """One run of `steps` rows; its numbers depend on `number` only."""
    run = Run.create(
        project / "runs" / f"run-{number:02d}",
        {
            "name": f"run-{number:02d}",
            "seed": number % 3,
            "inputs": {},
            "planned_steps": steps + 1000,
            "recipe": {"train": {"clip_norm": 1.0, "lr": 1e-3 * (1 + number // 3)}, "seed": number % 3},
        },
    )
    rng = np.random.default_rng(number)
    step = np.arange(1, steps + 1)
    loss = 2.0 + 0.02 * (number // 3) + 6.5 * np.exp(-step / (steps / 12)) + rng.normal(0, 0.03, steps)
    grad = np.abs(rng.normal(0.7, 0.1, steps))
    for spike in SPIKES:
        if spike < steps:
            loss[spike - 1] += 4.0
            grad[spike - 1] = 12.0
    rate = 52_000 + rng.normal(0, 700, steps)
    dice = random.Random(number)
    with run.metrics_path.open("wb") as file:
        file.writelines(
            line(int(s), float(v), float(g), float(r), steps, dice)
            for s, v, g, r in zip(step, loss, grad, rate, strict=True)
        )
    run.update_manifest(state="running", segments=1)
    return run.folder


def line(step: int, loss: float, grad: float, rate: float, steps: int, dice: random.Random) -> bytes:
    """One row."""
    row = {
        "step": step,
        "tokens": step * 65_536,
        "time": 1_790_000_000.0 + step * 1.25,
        "segment": 0,
        "train/loss": loss,
        "train/grad_norm": grad,
        "train/clipped": int(grad > 1.0),
        "train/lr": 3e-4 * (0.5 + 0.5 * math.cos(step / steps * math.pi)),
        "train/tokens_per_s": rate,
    }
    if step % 500 == 0:
        smooth = 2.05 + 6.5 * math.exp(-step / (steps / 12))
        for place, name in enumerate(SLICES):
            row[f"val/{name}/bpb"] = (smooth + 0.1 * place + dice.gauss(0, 0.004)) / 2.6
        row["val/all/loss"], row["train_eval/loss"] = smooth + 0.1, smooth
        row["val/all/bpb"], row["train_eval/bpb"] = (smooth + 0.1) / 2.6, smooth / 2.6
    return orjson.dumps(row) + b"\n"
