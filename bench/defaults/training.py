"""One small training of a variant, with the parts that a run is made of: windows in, bits per byte out."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bench.defaults.variants import LENGTH, ROWS, Variant
from umsicht.recipe.train import OptimizerSettings, ScheduleSettings
from umsicht.tokens.batch import Batch
from umsicht.train.alone import ALONE
from umsicht.train.average import averaged_from
from umsicht.train.objective import LanguageModelling
from umsicht.train.optimizer import Optimizer
from umsicht.train.reduction import clip
from umsicht.train.schedule import Schedule

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Text:
    """A token stream to train on, one to score, and how many bytes of text the second is."""

    train: Ids
    val: Ids
    val_bytes: int


def windows(stream: Ids, starts: Ids, length: int) -> Batch:
    """Rows that begin at `starts`, cut to `length`."""
    rows = torch.from_numpy(np.stack([stream[s : s + LENGTH + 1] for s in starts]).astype(np.int64))
    inputs, targets = rows[:, :-1].reshape(-1, length), rows[:, 1:].reshape(-1, length)
    return Batch(inputs, targets, torch.zeros_like(inputs, dtype=torch.int32), torch.arange(len(inputs)))


def steps_of(variant: Variant, tokens: int) -> list[int]:
    """Rows of each step, until `tokens` are read."""
    rows, read = [], 0
    while read < tokens:
        rows.append(variant.rows(read / tokens))
        read += rows[-1] * LENGTH
    return rows


def train(variant: Variant, text: Text, tokens: int, seed: int) -> dict[str, float]:
    """Train on `tokens` tokens; the same seed gives every variant the same windows in the same order."""
    model = variant.build(seed)
    settings = OptimizerSettings.model_validate(variant.optimizer)
    optimizer, objective = Optimizer(model, settings), LanguageModelling(z_loss=variant.z_loss)
    rows = steps_of(variant, tokens)
    schedule = Schedule(ScheduleSettings.model_validate(variant.schedule), len(rows))
    first_averaged = averaged_from(settings.average_share, len(rows))
    starts = np.random.default_rng(seed).integers(0, len(text.train) - LENGTH - 1, sum(rows))
    begin, read = time.process_time(), 0
    for index, count in enumerate(rows):
        batch = windows(text.train, starts[read : read + count], variant.length(read * LENGTH / tokens))
        read += count
        optimizer.zero_grad()
        torch.autograd.backward(objective(model, batch).objective / batch.targets.numel())
        clip(optimizer.parameters, float(ALONE.gradient_norm(optimizer.parameters)), settings.clip_norm)
        optimizer.step(variant.rates * schedule.factor(index))
        if index >= first_averaged:
            optimizer.average(index - first_averaged + 1)
    if settings.average_share:
        optimizer.take_average()
    return {"cpu_s": time.process_time() - begin, "steps": len(rows), "bpb": score(model, text)}


@torch.no_grad()
def score(model: Any, text: Text) -> float:
    """Bits per byte over windows side by side."""
    objective = LanguageModelling()
    model.eval()
    starts = np.arange(0, len(text.val) - LENGTH - 1, LENGTH)
    nats = sum(
        float(objective(model, windows(text.val, starts[i : i + 4 * ROWS], LENGTH)).nats)
        for i in range(0, len(starts), 4 * ROWS)
    )
    return nats / math.log(2) / (text.val_bytes * len(starts) * LENGTH / len(text.val))
