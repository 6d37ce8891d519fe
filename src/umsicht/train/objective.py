"""The loss contract: sum of cross-entropy over active targets ÷ active targets in the whole global batch, in float32.

An objective returns *sums* for one micro-batch; the loop divides by the count of the whole global batch, all micro-batches and ranks.
So one batch of B, B micro-batches of one, and two ranks give the same loss and gradient, uneven masks included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from umsicht.score.loss import loss_sum
from umsicht.tokens.batch import IGNORE, Batch


@dataclass(frozen=True)
class LossSums:
    """Sums over one micro-batch. `objective` is differentiated; `nats` is the plain cross-entropy that is reported."""

    objective: Tensor
    nats: Tensor


Objective = Callable[[Any, Batch], LossSums]


class LanguageModelling:
    """Next-token cross-entropy. Models with `hidden` and `head_weight` never build a full logits tensor; others give logits."""

    def __init__(
        self,
        *,
        chunk_rows: int = 512,
        uses_document_mask: bool = False,
        label_smoothing: float = 0.0,
        z_loss: float = 0.0,
    ) -> None:
        self._options: dict[str, Any] = {
            "chunk_rows": chunk_rows,
            "label_smoothing": label_smoothing,
            "z_loss": z_loss,
        }
        self._uses_document_mask = uses_document_mask

    def __call__(self, model: Any, batch: Batch) -> LossSums:
        """Sums over the active targets of `batch`, float32 scalars."""
        if not hasattr(model, "hidden"):
            return self._from_logits(model(batch.inputs), batch)
        mask = {"document_ids": batch.document_ids} if self._uses_document_mask else {}
        sums = loss_sum(
            model.hidden(batch.inputs, **mask),
            model.head_weight,
            batch.targets,
            softcap=getattr(getattr(model, "config", None), "softcap", None),
            **self._options,
        )
        return LossSums(sums.objective, sums.nats)

    def _from_logits(self, logits: Tensor, batch: Batch) -> LossSums:
        rows, targets = logits.flatten(0, 1).float(), batch.targets.flatten()
        active = targets != IGNORE
        nats = F.cross_entropy(rows, targets, ignore_index=IGNORE, reduction="sum")
        objective = nats
        if smoothing := self._options["label_smoothing"]:
            uniform = (rows.logsumexp(-1) - rows.mean(-1))[active].sum()
            objective = (1 - smoothing) * nats + smoothing * uniform
        if weight := self._options["z_loss"]:
            objective = objective + weight * rows.logsumexp(-1)[active].square().sum()
        return LossSums(objective, nats.detach())
