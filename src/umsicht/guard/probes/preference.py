"""T24 on anybody's preference loss: is the reference a model apart, and do policy and reference take the same path?"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from umsicht.findings import Finding
from umsicht.guard.probes.micro import padding_counts
from umsicht.guard.subject import Cannot, Subject, numbers

STAGE = "loss-norm"


def preference(subject: Subject) -> Iterator[Finding]:
    """The loss of a preference must move with the policy, and must not depend on dropout that the reference does not share."""
    loss, view = subject.need_loss(), subject.need_model()
    if not subject.prefers:
        raise Cannot("the loss makes no token less likely: no preference")

    def value(training: bool, seed: int = 0) -> float:
        torch.manual_seed(seed)
        with torch.no_grad(), view.mode(training=training):
            return float(loss.of(subject.small))

    advantages = subject.advantages
    if advantages is not None:
        yield from _signs(subject, advantages)
    start = value(training=False)
    with subject.awake():
        # A head made louder changes every log-probability, whatever the weights were.
        with torch.no_grad():
            for parameter in subject.need_module().parameters():
                parameter.mul_(1.5)
        yield from padding_counts(subject, tolerance=3e-5)
        moved = value(training=False)
    # Of a ratio to the policy's own likelihood only the gradient knows the weights.
    if advantages is None and abs(moved - start) <= 1e-6 * max(1.0, abs(start)):
        yield Finding(
            "ADAPTER/reference-follows",
            "stop",
            STAGE,
            location="loss: reference",
            numbers=numbers(loss=start, moved=moved),
        )
        return
    drawn = [value(training=True, seed=seed) for seed in (1, 2)]
    spread = max(abs(one - start) for one in drawn)
    if drawn[0] != drawn[1] and spread > 1e-5 * max(1.0, abs(start)):
        yield Finding(
            "ADAPTER/dropout-in-policy",
            "warn",
            STAGE,
            location="model: dropout",
            numbers=numbers(loss=start, first=drawn[0], second=drawn[1]),
        )


def _signs(subject: Subject, advantages: torch.Tensor) -> Iterator[Finding]:
    """Rows with a gain are pulled, rows with a loss pushed away."""
    found = subject.effective(subject.small)
    if found.pushed is None:
        return
    moved = found.active.any(1) & (advantages.abs() > 1e-6)
    wrong = moved & (found.pushed.any(1) != (advantages < 0))
    if bool(moved.any()) and bool(wrong[moved].all()):
        yield Finding(
            "ADAPTER/advantage-sign",
            "stop",
            STAGE,
            location="loss: advantages",
            numbers=numbers(rows=int(moved.sum()), wrong=int(wrong.sum())),
        )
