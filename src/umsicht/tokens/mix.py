"""The declared mix beside the one that rows really come from."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from umsicht.tokens.packed import PackedSource

LOOKED_AT = 200


@dataclass(frozen=True)
class MixShare:
    """One part of the mix over a number of steps: shares of the tokens, and passes over its text.

    `low` and `high` are the 95 % interval of the realised share as sampled batches show it: an honest order keeps `declared` inside.
    """

    declared: float
    realised: float
    low: float
    high: float
    epochs: float
    tokens: int

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)


def realised(source: PackedSource, steps: int) -> dict[str, MixShare]:
    """Shares over the first `steps` steps. Realised shares are counted exactly; the interval comes from at most 200 batches."""
    rows = steps * source.rows_per_batch
    counts = source.schedule.counts(rows)
    declared = _declared(source, rows)
    looked = np.unique(np.linspace(0, steps - 1, min(steps, LOOKED_AT)).astype(np.int64))
    in_batches = np.stack(
        [np.bincount(source.group_numbers(int(s)), minlength=len(source.groups)) for s in looked]
    )
    shares = in_batches / source.rows_per_batch
    half = 1.96 * shares.std(0) / math.sqrt(len(looked)) + 1 / (len(looked) * source.rows_per_batch)
    epochs = source.epochs_by_group(steps)
    return {
        group.name: MixShare(
            declared=declared[number],
            realised=counts[number] / rows,
            low=max(0.0, float(shares[:, number].mean() - half[number])),
            high=min(1.0, float(shares[:, number].mean() + half[number])),
            epochs=epochs[group.name],
            tokens=group.tokens,
        )
        for number, group in enumerate(source.groups)
    }


def _declared(source: PackedSource, rows: int) -> list[float]:
    """Shares that the phases declare, weighted by the rows that fall into them."""
    phases = source.schedule.phases
    totals = [0.0] * len(source.groups)
    for number, phase in enumerate(phases):
        end = phases[number + 1].first_row if number + 1 < len(phases) else rows
        weight = max(0, min(rows, end) - phase.first_row) / rows
        for group, share in enumerate(phase.shares):
            totals[group] += weight * share
    return totals
