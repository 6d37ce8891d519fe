"""How fast a step is at several micro-batches, with and without compiled code: the part of a measurement that is about the machine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from umsicht.model import ModelConfig
from umsicht.plan.trial import Bench, run_trial
from umsicht.train.compiling import can_compile
from umsicht.train.machine import choose_device

STEPS = 5
COMPILE_FROM_S = 150.0
"""A measurement shorter than this does not try compiled code: a cold compilation alone takes about a minute (docs/measured/log.md)."""


@dataclass(frozen=True)
class Rate:
    """One way to compute the same step."""

    micro_batch: int
    compiled: bool
    tokens_per_s: float
    cpu_step_s: float
    peak_bytes: int

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)


def candidates(rows: int) -> list[int]:
    """At most four micro-batches: all rows, and halves of it down to an eighth."""
    return [rows // share for share in (1, 2, 4, 8) if rows % share == 0]


def scan(bench: Bench, config: ModelConfig, seconds: float, *, compiled: bool) -> list[Rate]:
    """Time `config` at each candidate within about `seconds`; the first is always timed. With `compiled` the best is timed compiled as well."""
    rows = max(1, bench.train.global_batch_tokens // config.seq_len)
    begin, found = time.monotonic(), list[Rate]()
    for micro_batch in candidates(rows):
        if found and time.monotonic() - begin > seconds * len(found) / (len(found) + 1):
            break
        found.append(_timed(bench, config, micro_batch, False))
    if compiled and can_compile(choose_device(bench.train.device)):
        found.append(_timed(bench, config, fastest(found).micro_batch, True))
    return found


def fastest(rates: Sequence[Rate]) -> Rate:
    """The highest rate."""
    return max(rates, key=lambda rate: rate.tokens_per_s)


def _timed(bench: Bench, config: ModelConfig, micro_batch: int, compiled: bool) -> Rate:
    train = bench.train.model_copy(update={"compile": "on" if compiled else "off"})
    trial = run_trial(replace(bench, train=train), config, STEPS, slice_bytes=500, micro_batch=micro_batch)
    return Rate(
        micro_batch, compiled, trial.tokens_per_step / trial.step_s, trial.cpu_step_s, trial.peak_bytes
    )
