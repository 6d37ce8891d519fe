"""What is chosen by looking at the machine: device, number format, threads, micro-batch. Resolved once, recorded, reused on resume."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from umsicht.findings import UserError
from umsicht.recipe.train import TrainSettings
from umsicht.words import t


@dataclass(frozen=True)
class Machine:
    """Resolved choices of a run. `precision`: float32, bfloat16 (weights, with float32 masters) or autocast."""

    device: str
    precision: str
    compile: bool
    micro_batch: int
    threads: int
    measured: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Machine:
        return cls(**plain)


PRODUCT_TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "autocast": torch.bfloat16}
"""What matrix products are computed in, by precision."""


def available_cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def wanted_threads() -> int:
    """Threads to compute with: OMP_NUM_THREADS where it is set (a user's word), else every core this process may use."""
    value = os.environ.get("OMP_NUM_THREADS", "")
    return int(value) if value.isdigit() and int(value) > 0 else available_cores()


def threads_are_named(settings: TrainSettings) -> bool:
    """True where a person named the number of threads, in the recipe or by OMP_NUM_THREADS."""
    return settings.threads is not None or bool(os.environ.get("OMP_NUM_THREADS"))


def choose_device(wanted: str) -> str:
    """`auto` takes CUDA, then MPS, then the processor. Raises UserError where a named device is absent."""
    has = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if wanted == "auto":
        return next(name for name in ("cuda", "mps", "cpu") if has[name])
    if not has[wanted]:
        raise UserError(
            t("train.device_absent", device=wanted),
            why=t("train.device_absent_why"),
            fix=t("train.device_absent_fix"),
        )
    return wanted


def product_seconds(dtype: torch.dtype, device: str, size: int = 512, repeats: int = 3) -> float:
    """Best time of a `size`³ matrix product in `dtype`, seconds. Feature flags lie (emulated formats, throttled units); a clock does not."""
    a = torch.randn(size, size, device=device).to(dtype)
    b = torch.randn(size, size, device=device).to(dtype)
    best = float("inf")
    for _ in range(repeats + 1):
        start = time.perf_counter()
        c = a @ b
        if device == "cuda":
            torch.cuda.synchronize()
        elif device == "mps":
            torch.mps.synchronize()
        best = min(best, time.perf_counter() - start)
    del c
    return best


def fastest_threads(
    work: Callable[[], object], candidates: Sequence[int], repeats: int = 2
) -> tuple[int, dict[str, float]]:
    """The number of threads with which `work` is done soonest, and the best seconds of each. Sets it.

    More threads are not always faster: on a busy machine, or with small products, they wait for each other at every operation.
    """
    measured: dict[str, float] = {}
    for threads in dict.fromkeys(candidates):
        torch.set_num_threads(threads)
        times = []
        for _ in range(repeats + 1):
            start = time.perf_counter()
            work()
            times.append(time.perf_counter() - start)
        measured[f"step_s_with_{threads}_threads"] = min(times[1:])
    best = min(candidates, key=lambda n: (measured[f"step_s_with_{n}_threads"], n))
    torch.set_num_threads(best)
    return best, measured


def choose_precision(wanted: str, device: str) -> tuple[str, dict[str, float]]:
    """`auto` takes bfloat16 where a product in it is at least 1.3 times as fast here. Returns the choice and the measured seconds."""
    if wanted != "auto":
        return wanted, {}
    # A small product first: on a processor that emulates bfloat16 the large one would take seconds.
    plain, half = (product_seconds(d, device, 128, 2) for d in (torch.float32, torch.bfloat16))
    if half > 4 * plain:
        return "float32", {"float32_product_s": plain, "bfloat16_product_s": half}
    plain, half = (product_seconds(d, device) for d in (torch.float32, torch.bfloat16))
    choice = "bfloat16" if plain > 1.3 * half else "float32"
    return choice, {"float32_product_s": plain, "bfloat16_product_s": half}


def choose_micro_batch(wanted: int | None, rows: int, seq_len: int, device: str) -> int:
    """Rows computed at once: the largest divisor of `rows` that holds at most 8,192 tokens on a processor, 65,536 on a GPU."""
    limit = wanted or max(1, (8192 if device == "cpu" else 65536) // seq_len)
    return max(d for d in range(1, rows + 1) if rows % d == 0 and d <= max(1, limit))


def resolve(settings: TrainSettings, *, rows: int, seq_len: int) -> Machine:
    """Probe this machine and settle every `auto`."""
    device = choose_device(settings.device)
    threads = settings.threads or wanted_threads()
    torch.set_num_threads(threads)
    precision, measured = choose_precision(settings.precision, device)
    return Machine(
        device=device,
        precision=precision,
        compile=False,
        micro_batch=choose_micro_batch(settings.micro_batch, rows, seq_len, device),
        threads=threads,
        measured=measured,
    )
