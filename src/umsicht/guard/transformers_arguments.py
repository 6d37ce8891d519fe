"""What the arguments of a `transformers.Trainer` say of a training before its first step."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from umsicht.findings import Finding
from umsicht.guard.subject import numbers

_FALLS = re.compile(r"loss|perplexity|ppl|nll|(?<![a-z])(?:[wct]er|mae|mse|rmse|bpb)(?![a-z])", re.IGNORECASE)
"""Figures that are better when lower."""
WARMING = 0.5
"""Share of the training from which its warm-up is no warm-up."""


def judge(arguments: Any, steps: int) -> Iterator[Finding]:
    """`steps` is the length of the training."""
    yield from _best(arguments)
    yield from _warm_up(arguments, steps)


def _best(arguments: Any) -> Iterator[Finding]:
    """The checkpoint kept as the best is the one with the highest loss."""
    metric = getattr(arguments, "metric_for_best_model", None)
    keeps = getattr(arguments, "load_best_model_at_end", False)
    keeps = keeps or str(getattr(arguments, "save_strategy", "")).endswith("best")
    if keeps and metric and getattr(arguments, "greater_is_better", None) and _FALLS.search(metric):
        yield Finding(
            "EVAL-VALIDITY/best-is-worst",
            "stop",
            "evaluation",
            location="arguments: greater_is_better",
            numbers=numbers(metric=metric),
        )


def _warm_up(arguments: Any, steps: int) -> Iterator[Finding]:
    if steps <= 0 or not hasattr(arguments, "get_warmup_steps"):
        return
    warm = int(arguments.get_warmup_steps(steps))
    # A warm-up by itself may be all that is wanted where the schedule is constant afterwards and the steps are few.
    if warm > 1 and warm >= WARMING * steps:
        yield Finding(
            "OPT-WIRING/warm-up-too-long",
            "stop" if warm >= steps else "warn",
            "one-step",
            location="arguments: warmup_steps",
            numbers=numbers(warm_up=warm, steps=steps, share=min(1.0, steps / warm)),
        )
