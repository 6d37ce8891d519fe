"""T13: without dropout a model answers alike in training and in evaluation mode, or what is evaluated is not what was trained."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from umsicht.findings import Finding
from umsicht.guard.probes.silent import silent
from umsicht.guard.subject import Cannot, Subject, numbers

FLOOR = {torch.float32: 1e-3, torch.float64: 1e-6}


def modes(subject: Subject) -> Iterator[Finding]:
    """Logits of one batch in both modes, dropout off; noise that only training has is no difference."""
    view, module, example = subject.need_model(), subject.need_module(), subject.small
    limit = FLOOR.get(view.dtype)
    if limit is None:
        raise Cannot("half precision may round otherwise in each mode")

    def logits(training: bool, seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        with torch.no_grad(), view.mode(training=training):
            return view.logits(example.ids, **example.context).float()

    with subject.borrowed(), silent(module):
        trained, again, evaluated = logits(True, 1), logits(True, 2), logits(False, 1)
    if not torch.equal(trained, again):
        raise Cannot("training mode draws random numbers that are no dropout")
    gap = float((trained - evaluated).abs().max() / evaluated.std().clamp_min(1e-12))
    if gap > limit:
        yield Finding(
            "EVAL-VALIDITY/modes-differ",
            "warn",
            "evaluation",
            location="model: model.eval()",
            numbers=numbers(gap=gap),
        )
