"""What is compared across ranks: at the start everything that must be equal, at intervals the weights that must still be.

A sum of ones shows exchanges that lose data; digests show ranks that start from, or have come to, different weights; the union of the sample
numbers shows data read twice or not at all. All of it raises StopRun on every rank, with the same finding.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from umsicht.findings import Finding
from umsicht.tokens.batch import Batch, BatchSource
from umsicht.train.hooks import StopRun
from umsicht.train.ranks import Ranks
from umsicht.train.reduction import Reduction, local

ONES = 100_003
"""Length of the vector of ones: longer than one message, and no multiple of anything."""


def digests(tensors: dict[str, Tensor]) -> dict[str, str]:
    """A short digest of the bytes of each tensor."""
    return {
        name: hashlib.blake2b(
            tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()
            if tensor.ndim
            else tensor.detach().cpu().reshape(1).view(torch.uint8).numpy().tobytes(),
            digest_size=8,
        ).hexdigest()
        for name, tensor in tensors.items()
    }


def sums_are_right(ranks: Ranks, device: torch.device) -> None:
    """Every rank adds long vectors of ones, on the way small figures take and on that of gradients; each element must be the number of ranks.

    Raises StopRun.
    """
    if ranks.world == 1:
        return
    import torch.distributed as dist

    from umsicht.train.layouts.replicate import sum_in_rank_order

    total, flat = ranks.sum(torch.ones(ONES)), torch.ones(ONES, device=device)
    assert dist.group.WORLD is not None
    sum_in_rank_order(flat, dist.group.WORLD, ranks.world)
    both = torch.cat([total, flat.cpu()])
    wrong = both[both != ranks.world]
    found = ranks.gather(float(wrong[0]) if len(wrong) else None)
    bad = next((rank for rank, value in enumerate(found) if value is not None), None)
    if bad is not None:
        numbers = {"rank": bad, "expected": ranks.world, "found": found[bad]}
        raise StopRun(Finding("RANK/exchange-wrong", "stop", "train", f"ranks: rank {bad}", numbers))


def same_everywhere(ranks: Ranks, facts: dict[str, Any]) -> None:
    """Compare plain facts (versions, settings, digests of the first weights and batch). Raises StopRun with the names that differ."""
    if ranks.world == 1:
        return
    all_facts = ranks.gather(facts)
    for rank, theirs in enumerate(all_facts):
        names = sorted(k for k in {*theirs, *all_facts[0]} if theirs.get(k) != all_facts[0].get(k))
        if names:
            numbers = {"rank": rank, "names": ", ".join(names[:5])}
            raise StopRun(Finding("RANK/settings-differ", "stop", "train", f"ranks: rank {rank}", numbers))


def weights_agree(ranks: Ranks, tensors: Mapping[str, Tensor], step: int) -> None:
    """Compare weights and optimizer state, or pieces of them, that several ranks hold. Raises StopRun with rank and name."""
    if ranks.world == 1:
        return
    from umsicht.train.layouts.pieces import place

    seen: dict[str, tuple[int, str]] = {}
    mine = digests({f"{name}@{place(p)[0]}": local(p) for name, p in tensors.items()})
    for rank, held in enumerate(ranks.gather(mine)):
        for key, digest in held.items():
            other, first = seen.setdefault(key, (rank, digest))
            if digest != first:
                name = key.partition("@")[0]
                numbers = {"rank": rank, "other": other, "name": name, "step": step}
                where = f"ranks: step {step}, {name}"
                raise StopRun(Finding("RANK/parameters-differ", "stop", "train", where, numbers))


def samples_once(reduction: Reduction, source: BatchSource, step: int, batches: list[Batch]) -> None:
    """The rows of all data ranks together are the global batch of `step` (0-based), each once. Raises StopRun."""
    ranks = reduction.ranks
    if ranks.world == 1:
        return
    # Of the ranks that compute one replica together, one speaks for its rows.
    mine = [] if not reduction.speaks else [int(row) for batch in batches for row in batch.rows.tolist()]
    read = Counter(row for rows in ranks.gather(mine) for row in rows)
    wanted = Counter(int(row) for row in source.batch(step).rows.tolist())
    if read != wanted:
        numbers = {
            "step": step + 1,
            "read": sum(read.values()),
            "rows": sum(wanted.values()),
            "missing": sum((wanted - read).values()),
            "repeated": sum((read - wanted).values()),
        }
        raise StopRun(Finding("RANK/samples-not-once", "stop", "train", f"ranks: step {step + 1}", numbers))
