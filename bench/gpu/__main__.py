"""`bench/gpu/run.sh`: the training step on one CUDA device. Prepared where no GPU was at hand: it has been run on a processor only."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch

from bench.common import QUICK, Bench
from umsicht.model import ModelConfig, build, derive
from umsicht.recipe.model import ModelSettings
from umsicht.recipe.train import OptimizerSettings
from umsicht.tokens.batch import Batch
from umsicht.train.alone import ALONE
from umsicht.train.machine import Machine
from umsicht.train.objective import LanguageModelling
from umsicht.train.optimizer import Optimizer
from umsicht.train.precision import computing
from umsicht.train.reduction import clip

VOCAB = 50_304
# Dense bfloat16 products of the cards' data sheets, in FLOP/s.
PEAKS = {"H200": 989e12, "H100": 989e12, "A100": 312e12, "L40S": 362e12, "4090": 165e12}


@dataclass(frozen=True)
class Shape:
    """One model and the rows of one step."""

    name: str
    d_model: int
    n_layers: int
    seq_len: int
    rows: int
    micro: int


SHAPES = (Shape("124M", 768, 12, 1024, 64, 32), Shape("1.3B", 2048, 24, 2048, 16, 8))


def flop_per_token(config: ModelConfig) -> float:
    """6 FLOP a weight that takes part in a product, and 6·layers·length·width of causal attention (PaLM 2022, appendix B, halved)."""
    body = config.n_layers * (
        2 * config.d_model * config.q_dim
        + 2 * config.d_model * config.kv_dim
        + 3 * config.d_model * config.d_ff
    )
    return (
        6.0 * (body + config.vocab_size * config.d_model)
        + 6.0 * config.n_layers * config.seq_len * config.q_dim
    )


def measure(shape: Shape, device: str, *, compiled: bool, optimizer: str) -> tuple[float, float, ModelConfig]:
    """Tokens a second (median of the steps after warm-up), peak bytes, and the model's sizes."""
    settings = ModelSettings(d_model=shape.d_model, n_layers=shape.n_layers, head_dim=128)
    config = derive(settings, VOCAB, seq_len=shape.seq_len)
    machine = Machine(device, "bfloat16" if device == "cuda" else "float32", compiled, shape.micro, 1, {})
    model = computing(build(config, 0, device=device), machine)
    objective = LanguageModelling(chunk_rows=4096, compiled=compiled)
    moved = Optimizer(model, OptimizerSettings.model_validate({"kind": optimizer}))
    ids = torch.randint(0, VOCAB, (shape.rows, shape.seq_len + 1), device=device)
    whole = Batch(
        ids[:, :-1], ids[:, 1:], torch.zeros_like(ids[:, 1:], dtype=torch.int32), torch.arange(shape.rows)
    )
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(3 if QUICK else 20):
        start = time.perf_counter()
        moved.zero_grad()
        for first in range(0, shape.rows, shape.micro):
            sums = objective(model, whole.slice(first, first + shape.micro))
            (sums.objective / whole.targets.numel()).backward()
        clip(moved.parameters, float(ALONE.gradient_norm(moved.parameters)), 1.0)
        moved.step(0.01)
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    settled = sorted(times[len(times) // 3 :])
    peak = torch.cuda.max_memory_allocated() if device == "cuda" else 0
    return shape.rows * shape.seq_len / settled[len(settled) // 2], float(peak), config


def main() -> None:
    bench = Bench(
        "gpu", "One training step on one CUDA device: bfloat16 weights, float32 masters, compiled trunk."
    )
    if not torch.cuda.is_available():
        for shape in SHAPES:
            bench.figure(
                f"MFU at {shape.name}",
                None,
                ">= 45" if shape.name == "1.3B" else "",
                note="no CUDA device here",
            )
        bench.finish()
    name = torch.cuda.get_device_name()
    peak_flops = next((value for key, value in PEAKS.items() if key in name), None)
    for shape in SHAPES:
        for optimizer in ("adamw", "muon"):
            speed, peak_bytes, config = measure(shape, "cuda", compiled=True, optimizer=optimizer)
            label = f"{shape.name} {optimizer}"
            bench.figure(f"{label}: tokens a second", speed, note=name)
            bench.figure(f"{label}: peak memory", peak_bytes / 1e9, unit="GB")
            share = 100 * speed * flop_per_token(config) / peak_flops if peak_flops else None
            target = ">= 45" if shape.name == "1.3B" and optimizer == "adamw" else ""
            bench.figure(f"{label}: MFU", share, target, unit="%")
    bench.finish()


if __name__ == "__main__":
    main()
