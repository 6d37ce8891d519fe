"""T17 on positions: with rotary embeddings only distances count, so moving a whole row to later positions changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from umsicht.findings import Finding
from umsicht.guard.subject import Cannot, Subject, numbers

FLOOR = {torch.float32: 2e-3, torch.float64: 1e-6}
MOVED = 7


def relative_positions(subject: Subject) -> Iterator[Finding]:
    """Queries turned and keys not, or by other angles: every score then depends on where the row stands. Only for models that rotate."""
    view, module = subject.need_model(), subject.need_module()
    config = getattr(module, "config", None)
    if getattr(config, "family", "gpt2") == "gpt2" or view.accepts("position_ids") is None:
        raise Cannot("not a model with rotary positions of ours: absolute positions may depend on the place")
    limit = FLOOR.get(view.dtype)
    if limit is None:
        raise Cannot("half precision is too coarse for angles")
    ids = subject.small.ids
    where = torch.arange(ids.shape[1], device=ids.device)
    with subject.awake(), torch.no_grad(), view.mode(training=False):
        here = view.logits(ids, position_ids=where).float()
        again = view.logits(ids, position_ids=where).float()
        there = view.logits(ids, position_ids=where + MOVED).float()
    if not torch.equal(here, again):
        raise Cannot("the model does not answer twice alike, so no difference means anything")
    size = float((here - there).abs().max() / here.std().clamp_min(1e-12))
    if size > limit:
        yield Finding(
            "NUMERIC/not-relative",
            "stop",
            "documents",
            location="model: rotary",
            numbers=numbers(delta=size, moved=MOVED),
        )
