"""Train one program for a number of processor seconds and score it: orders come as JSON lines on stdin, answers go to stdout.

Runs under any Python that has torch (and the peer, if it is one). All subjects read the same windows of the same token stream, have the same width, depth
and vocabulary, compute in float32, and follow their own recipe; the schedule runs over processor time, so that nobody has to guess a number of steps.
Time for scoring is not counted.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from bench.peers import models

WIDTH, LAYERS, HEADS, LENGTH, ROWS = 128, 4, 2, 256, 8
WARM_UP = 0.02


@dataclass
class Learner:
    """A fresh model: `step(inputs, targets, progress)` trains, `nats(inputs, targets)` sums the cross-entropy of a batch."""

    step: Callable[[torch.Tensor, torch.Tensor, float], None]
    nats: Callable[[torch.Tensor, torch.Tensor], float]


def warmed(progress: float, shape: Callable[[float], float]) -> float:
    """Linear warm-up over 2 % of the time, then `shape` of what follows."""
    return progress / WARM_UP if progress < WARM_UP else shape((progress - WARM_UP) / (1 - WARM_UP))


def cosine_to_tenth(x: float) -> float:
    """litgpt's: cosine down to a tenth."""
    return 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * x))


def plain(
    model: torch.nn.Module,
    logits: Callable[[torch.Tensor], torch.Tensor],
    rate: float,
    shape: Callable[[float], float],
    betas: tuple[float, float],
    decay: float,
) -> Learner:
    """AdamW, clipping at 1, mean cross-entropy: what AdamW recipes share."""
    groups = [
        {"params": [p for p in model.parameters() if p.ndim >= 2], "weight_decay": decay},
        {"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=rate, betas=betas, fused=True)

    def step(x: torch.Tensor, y: torch.Tensor, progress: float) -> None:
        for group in optimizer.param_groups:
            group["lr"] = rate * max(1e-3, warmed(progress, shape))
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(logits(x).flatten(0, 1), y.flatten()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    def nats(x: torch.Tensor, y: torch.Tensor) -> float:
        return float(F.cross_entropy(logits(x).flatten(0, 1), y.flatten(), reduction="sum"))

    return Learner(step, nats)


def shape_of(vocab: int) -> models.Shape:
    """The shape of every peer here."""
    return models.Shape(vocab, WIDTH, LAYERS, HEADS, LENGTH, 384)


def transformers_llama(vocab: int, rate: float) -> Learner:
    """Hugging Face's Llama with the Trainer's linear schedule and AdamW."""
    model = models.transformers_llama(shape_of(vocab))
    return plain(
        model, lambda x: model(input_ids=x, use_cache=False).logits, rate, lambda x: 1 - x, (0.9, 0.999), 0.0
    )


def litgpt(vocab: int, rate: float) -> Learner:
    """litgpt's GPT in its Llama shape, with its pretraining recipe: scaled normal weights, cosine to a tenth, decay 0.1."""
    model = models.litgpt(shape_of(vocab))
    for name, parameter in model.named_parameters():
        if parameter.ndim >= 2:
            into_stream = name.endswith("proj.weight")
            std = 1 / math.sqrt(WIDTH) / LAYERS if into_stream else math.sqrt(0.4 / WIDTH)
            torch.nn.init.normal_(parameter, 0.0, std)
    return plain(model, model, rate, cosine_to_tenth, (0.9, 0.95), 0.1)


def nanogpt(vocab: int, rate: float) -> Learner:
    """nanoGPT's GPT from the folder in NANOGPT_DIR, cosine to a tenth."""
    model = models.nanogpt(shape_of(vocab))
    dummy = torch.zeros(1, dtype=torch.long)
    return plain(model, lambda x: model(x, dummy.expand_as(x))[0], rate, cosine_to_tenth, (0.9, 0.95), 0.1)


def nanochat(vocab: int, rate: float) -> Learner:
    """nanochat's GPT from the folder in NANOCHAT_DIR with its recipe: Muon and AdamW at the rates of its pretraining script, 65 % of the run to
    cool down, momentum up to 0.97. `rate` multiplies all of them in place of its rule for the batch size, and weight decay is left out: both rules
    are made for runs a thousand times longer and leave their range here.
    """
    model = models.nanochat(shape_of(vocab))
    optimizer = model.setup_optimizer(
        unembedding_lr=0.008 * rate, embedding_lr=0.3 * rate, matrix_lr=0.02 * rate, scalar_lr=0.5 * rate
    )
    taken = [0]

    def step(x: torch.Tensor, y: torch.Tensor, progress: float) -> None:
        cooling = max(0.0, (progress - 0.35) / 0.65)
        warm = min(1.0, taken[0] / 400)
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"] * min((taken[0] + 1) / 40, 1 - 0.95 * cooling)
            if group["kind"] == "muon":
                group["momentum"] = (0.85 + 0.12 * warm) * (1 - cooling) + 0.90 * cooling
        model(x, y).backward()
        optimizer.step()
        model.zero_grad(set_to_none=True)
        taken[0] += 1

    return Learner(step, lambda x, y: float(model(x, y, loss_reduction="sum")))


def umsicht(family: str, vocab: int, rate: float) -> Learner:
    """Ours with its default recipe; `rate` multiplies the default rates."""
    from umsicht.model import build, derive
    from umsicht.recipe.model import ModelSettings
    from umsicht.recipe.train import OptimizerSettings, ScheduleSettings
    from umsicht.tokens.batch import Batch
    from umsicht.train.alone import ALONE
    from umsicht.train.objective import LanguageModelling
    from umsicht.train.optimizer import Optimizer
    from umsicht.train.reduction import clip
    from umsicht.train.schedule import Schedule

    settings = ModelSettings.model_validate({"family": family, "d_model": WIDTH, "n_layers": LAYERS})
    model = build(derive(settings, vocab, seq_len=LENGTH), torch.initial_seed() % 2**31)
    objective, optimizer = LanguageModelling(), Optimizer(model, OptimizerSettings())
    schedule = Schedule(ScheduleSettings(), 10_000)

    def sums(x: torch.Tensor, y: torch.Tensor) -> Any:
        return objective(model, Batch(x, y, torch.zeros_like(x, dtype=torch.int32), torch.arange(len(x))))

    def step(x: torch.Tensor, y: torch.Tensor, progress: float) -> None:
        optimizer.zero_grad()
        (sums(x, y).objective / y.numel()).backward()
        clip(optimizer.parameters, float(ALONE.gradient_norm(optimizer.parameters)), 1.0)
        optimizer.step(rate * schedule.factor(int(10_000 * progress)))

    return Learner(step, lambda x, y: float(sums(x, y).nats))


LEARNERS: dict[str, Callable[[int, float], Learner]] = {
    "umsicht": lambda vocab, rate: umsicht("qwen3", vocab, rate),
    "umsicht-fast": lambda vocab, rate: umsicht("fast", vocab, rate),
    "transformers": transformers_llama,
    "litgpt": litgpt,
    "nanogpt": nanogpt,
    "nanochat": nanochat,
}


def windows(stream: np.ndarray, starts: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and targets of windows that begin at `starts`."""
    rows = torch.from_numpy(np.stack([stream[s : s + LENGTH + 1] for s in starts]).astype(np.int64))
    return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


def score(learner: Learner, stream: np.ndarray, size_bytes: int) -> float:
    """Bits per byte over windows side by side; the bytes of the few tokens left over are taken off in proportion."""
    starts = np.arange(0, len(stream) - LENGTH - 1, LENGTH)
    with torch.no_grad():
        nats = sum(learner.nats(*windows(stream, starts[i : i + ROWS])) for i in range(0, len(starts), ROWS))
    return nats / math.log(2) / (size_bytes * len(starts) * LENGTH / len(stream))


def train(name: str, data: dict[str, Any], order: dict[str, Any]) -> dict[str, float]:
    """One training of `cpu_s` processor seconds and its score on `split`."""
    torch.manual_seed(int(order["seed"]))
    learner = LEARNERS[name](int(data["vocab"]), float(order["rate"]))
    generator = np.random.default_rng(int(order["seed"]))
    stream, budget = data["train"], float(order["cpu_s"])
    begin, steps = time.process_time(), 0
    while (spent := time.process_time() - begin) < budget:
        learner.step(*windows(stream, generator.integers(0, len(stream) - LENGTH - 1, ROWS)), spent / budget)
        steps += 1
    spent = time.process_time() - begin
    split = str(order["split"])
    return {
        "bpb": score(learner, data[split], int(data[f"{split}_bytes"])),
        "tokens": steps * ROWS * LENGTH,
        "cpu_s": spent,
    }


def main() -> None:
    """Serve orders."""
    parser = argparse.ArgumentParser()
    parser.add_argument("subject", choices=sorted(LEARNERS))
    parser.add_argument("folder", type=Path)
    named = parser.parse_args()
    torch.set_num_threads(1)
    data: dict[str, Any] = json.loads((named.folder / "data.json").read_text())
    for split in ("train", "tune", "val"):
        data[split] = np.load(named.folder / f"{split}.npy", mmap_mode="r")
    train(named.subject, data, {"seed": 0, "rate": 1e-3, "cpu_s": 0.5, "split": "tune"})
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(train(named.subject, data, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
