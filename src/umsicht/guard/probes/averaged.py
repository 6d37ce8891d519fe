"""T13: an evaluation that scores other weights than the model's own, an average (EMA) or a copy, must at least follow the training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from umsicht.findings import Finding
from umsicht.guard.adapt_batch import Example
from umsicht.guard.probes.membership import get_optimizer
from umsicht.guard.subject import Cannot, Subject, numbers

STEPS = 4


def scores_other_weights(subject: Subject, number: Callable[[], float], was: float) -> bool:
    """Whether the evaluation gives the same number for other weights of the model."""
    with subject.borrowed():
        with torch.no_grad():
            for parameter in subject.need_module().parameters():
                parameter.mul_(1.5)
        return number() == was


def follows(
    subject: Subject, number: Callable[[], float], was: float, pieces: list[Example]
) -> Finding | None:
    """EVAL-VALIDITY/other-weights where some steps of training move the model and not what is evaluated. Raises `Cannot` without a step."""
    if subject.train_step is None:
        raise Cannot(
            "the evaluation scores other weights than the model's: without train_step= nobody sees whether they follow"
        )
    optimizer = get_optimizer(subject)
    view, module = subject.need_model(), subject.need_module()
    raws: list[Any] = [piece.raw for piece in pieces]
    with subject.borrowed(optimizer), view.mode(training=True):
        before = [parameter.detach().clone() for parameter in module.parameters()]
        for _ in range(STEPS):
            subject.take_step(optimizer, list(raws))
        moved = sum(not torch.equal(old, new) for old, new in zip(before, module.parameters(), strict=True))
        after = number()
    if not moved or after != was:
        return None
    return Finding(
        "EVAL-VALIDITY/other-weights",
        "stop",
        "evaluation",
        location="evaluation: weights",
        numbers=numbers(value=was, steps=STEPS, moved=moved),
    )
