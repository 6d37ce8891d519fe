"""One training step of one program, asked for over stdin: `go SECONDS` answers with tokens, wall and processor time, `rows N` sets the micro-batch,
`ceiling SECONDS` and `products SECONDS` time products alone.

Runs under any Python that has torch (and the peer, if it is one); knows nothing of the bench that asks. The shape is nanoGPT's small one
(384 wide, 6 layers, 6 heads: 10.6 M weights in the blocks), rows of 256 tokens, 2,048 tokens a step.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable

import torch

from bench.peers import models

VOCAB, WIDTH, LAYERS, HEADS, LENGTH, TOKENS = 4096, 384, 6, 6, 256, 2048
SHAPE = models.Shape(VOCAB, WIDTH, LAYERS, HEADS, LENGTH, 1024)

Step = Callable[[torch.Tensor, torch.Tensor], None]
at_once = [TOKENS // LENGTH]
"""Rows computed at once; a step always holds 2,048 tokens."""


def adamw(model: torch.nn.Module) -> torch.optim.Optimizer:
    """The optimizer every program gets: PyTorch's fused AdamW."""
    return torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)


def cross_entropy(logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Mean over all targets, from full logits."""
    return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), y.flatten())


def transformers_loss(m: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Of Hugging Face's Llama."""
    return cross_entropy(m(input_ids=x, use_cache=False).logits, y)


def litgpt_loss(m: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Of litgpt's GPT."""
    return cross_entropy(m(x), y)


def nanogpt_loss(m: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The one that nanoGPT's GPT computes itself."""
    loss: torch.Tensor = m(x, y)[1]
    return loss


def peer(
    make: Callable[[models.Shape], torch.nn.Module],
    loss_of: Callable[[torch.nn.Module, torch.Tensor, torch.Tensor], torch.Tensor],
    *,
    compiled: bool = False,
) -> Callable[[str], Step]:
    """Zero, forward, backward, clip, step: the loop all peers have; compiled for one shape of input where asked."""

    def stepping(precision: str) -> Step:
        plain = make(SHAPE).train()
        model = torch.compile(plain, dynamic=False) if compiled else plain
        optimizer = adamw(plain)

        def step(x: torch.Tensor, y: torch.Tensor) -> None:
            optimizer.zero_grad(set_to_none=True)
            for inputs, targets in zip(x.split(at_once[0]), y.split(at_once[0]), strict=True):
                with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bfloat16"):
                    loss = loss_of(model, inputs, targets)
                (loss * (inputs.shape[0] / x.shape[0])).backward()
            torch.nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
            optimizer.step()

        return step

    return stepping


def umsicht(precision: str, optimizer: str = "adamw", compiled: bool = False) -> Step:
    """Ours: the loss contract, chunked cross-entropy, clipping, our optimizer."""
    from umsicht.model import build, derive
    from umsicht.recipe.model import ModelSettings
    from umsicht.recipe.train import OptimizerSettings
    from umsicht.tokens.batch import Batch
    from umsicht.train.alone import ALONE
    from umsicht.train.machine import Machine
    from umsicht.train.objective import LanguageModelling
    from umsicht.train.optimizer import Optimizer
    from umsicht.train.precision import computing
    from umsicht.train.reduction import clip
    from umsicht.train.resident import keep_freed

    keep_freed()
    settings = ModelSettings(d_model=WIDTH, n_layers=LAYERS, head_dim=WIDTH // HEADS if WIDTH % 128 else 128)
    machine = Machine("cpu", precision, compiled, TOKENS // LENGTH, torch.get_num_threads(), {})
    model = computing(build(derive(settings, VOCAB, seq_len=LENGTH), 0), machine)
    objective = LanguageModelling(compiled=compiled)
    moved = Optimizer(model, OptimizerSettings.model_validate({"kind": optimizer}))

    def step(x: torch.Tensor, y: torch.Tensor) -> None:
        moved.zero_grad()
        batch = Batch(x, y, torch.zeros_like(x, dtype=torch.int32), torch.arange(x.shape[0]))
        for first in range(0, x.shape[0], at_once[0]):
            sums = objective(model, batch.slice(first, first + at_once[0]))
            (sums.objective / y.numel()).backward()
        norm = float(ALONE.gradient_norm(moved.parameters))
        clip(moved.parameters, norm, 1.0)
        moved.step(0.01)

    return step


SUBJECTS: dict[str, Callable[[str], Step]] = {
    "umsicht": umsicht,
    "umsicht-muon": lambda precision: umsicht(precision, "muon"),
    "umsicht-compiled": lambda precision: umsicht(precision, "adamw", True),
    "transformers": peer(models.transformers_llama, transformers_loss),
    "transformers-compiled": peer(models.transformers_llama, transformers_loss, compiled=True),
    "litgpt": peer(models.litgpt, litgpt_loss),
    "litgpt-compiled": peer(models.litgpt, litgpt_loss, compiled=True),
    "nanogpt": peer(models.nanogpt, nanogpt_loss),
    "nanogpt-compiled": peer(models.nanogpt, nanogpt_loss, compiled=True),
}


def ceiling(seconds: float, dtype: torch.dtype, *, backward: bool) -> dict[str, float]:
    """GFLOP/s of products alone, of the shapes a step of this size is made of; with `backward` also of the two that give gradients."""
    shapes = [(TOKENS, WIDTH, WIDTH), (TOKENS, WIDTH, 1024), (TOKENS, 1024, WIDTH), (256, WIDTH, VOCAB)]
    pairs = []
    for m, k, n in shapes:
        x, weight, slope = (torch.randn(size).to(dtype) for size in ((m, k), (n, k), (m, n)))
        pairs.append((x, weight.t()))
        pairs += [(slope, weight), (slope.t(), x)] if backward else []
    done, wall, cpu = 0.0, time.perf_counter(), time.process_time()
    while time.perf_counter() - wall < seconds:
        for a, b in pairs:
            a @ b
            done += 2.0 * a.shape[0] * a.shape[1] * b.shape[1]
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {"gflop_per_wall_s": done / wall / 1e9, "gflop_per_cpu_s": done / cpu / 1e9}


def serve(subject: str, precision: str) -> None:
    """Warm up, say `ready`, then answer every order."""
    torch.manual_seed(0)
    step = SUBJECTS[subject](precision)
    x = torch.randint(0, VOCAB, (TOKENS // LENGTH, LENGTH))
    y = torch.randint(0, VOCAB, (TOKENS // LENGTH, LENGTH))
    for _ in range(2):
        step(x, y)
    print("ready", flush=True)
    for line in sys.stdin:
        order, value = line.split()
        if order == "rows":
            at_once[0] = int(float(value))
            step(x, y)
            print(json.dumps({"rows": at_once[0]}), flush=True)
            continue
        if order in ("ceiling", "products"):
            dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
            print(json.dumps(ceiling(float(value), dtype, backward=order == "products")), flush=True)
            continue
        wall, cpu, steps = time.perf_counter(), time.process_time(), 0
        while steps == 0 or time.perf_counter() - wall < float(value):
            step(x, y)
            steps += 1
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        print(json.dumps({"tokens": steps * TOKENS, "wall_s": wall, "cpu_s": cpu}), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("subject", choices=sorted(SUBJECTS))
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--threads", type=int, default=1)
    named = parser.parse_args()
    torch.set_num_threads(named.threads)
    serve(named.subject, named.precision)
