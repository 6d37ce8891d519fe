"""T9 on tokens that were added: a row of the embedding that no training ever moved, used in the batches and frozen."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from umsicht.findings import Finding
from umsicht.guard.subject import Cannot, Subject, numbers, token_id

STAGE = "initialisation"
NEAR = 0.05
"""Distance to the mean row, relative to that of other rows: added rows are set to the mean (or to zero), trained ones leave it."""
LEARNS = ("embed", "wte", "token")
"""Names of parameters beside the table that would teach a new token."""


@torch.no_grad()
def new_tokens(subject: Subject) -> Iterator[Finding]:
    """Added tokens must be learned somewhere: with the embedding frozen (adapters) they stay the mean of all others."""
    module, view = subject.need_module(), subject.need_model()
    subject.need_example()
    table = view.input_embedding
    if table is None:
        raise Cannot("the input embedding cannot be seen")
    if any(p.requires_grad and any(one in name for one in LEARNS) for name, p in module.named_parameters()):
        raise Cannot("the embedding is trained")
    used = torch.cat([example.ids[example.real].flatten().cpu() for example in subject.examples])
    pad = token_id(subject.tokenizer, "pad") if subject.tokenizer is not None else None
    ids = [one for one in sorted(set(used.tolist())) if 0 <= one < table.num_embeddings and one != pad]
    weight = table.weight.float()
    distance = (weight - weight.mean(0)).norm(dim=1)
    new = [one for one in ids if float(distance[one]) < NEAR * float(distance.median())]
    # A table whose rows are all alike is judged elsewhere.
    if not new or len(new) > 0.5 * len(ids):
        return
    yield Finding(
        "OPT-WIRING/new-tokens-frozen",
        "stop",
        STAGE,
        location=f"embedding: row {new[0]}",
        numbers=numbers(
            tokens=len(new),
            ids=", ".join(str(one) for one in new[:8]),
            places=int(torch.isin(used, torch.tensor(new)).sum()),
            share=float(torch.isin(used, torch.tensor(new)).float().mean()),
        ),
    )
