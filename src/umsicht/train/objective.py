"""The loss contract: sum of cross-entropy over active targets ÷ active targets in the whole global batch, in float32.

An objective returns *sums* for one micro-batch; the loop divides by the count of the whole global batch, all micro-batches and ranks.
So one batch of B, B micro-batches of one, and two ranks give the same loss and gradient, uneven masks included.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from umsicht.score.loss import LossSum, loss_sum
from umsicht.tokens.batch import IGNORE, Batch


@dataclass(frozen=True)
class LossSums:
    """Sums over one micro-batch. `objective` is differentiated; `nats` is the plain cross-entropy that is reported."""

    objective: Tensor
    nats: Tensor


Objective = Callable[[Any, Batch], LossSums]


class LanguageModelling:
    """Next-token cross-entropy. Models with `hidden` and `head_weight` never build a full logits tensor; others give logits.

    `chunk_rows` rows of logits exist at a time: 256 of them at a vocabulary of 4,096 fit a processor's cache. `document_mask` keeps
    attention inside a document. `head_loss` may be replaced where the vocabulary is split over ranks. `compiled` compiles the trunk (not the loss) at its first call; `autocast` computes it in bfloat16.
    """

    def __init__(
        self,
        *,
        chunk_rows: int = 256,
        document_mask: bool = False,
        label_smoothing: float = 0.0,
        z_loss: float = 0.0,
        compiled: bool = False,
        autocast: bool = False,
    ) -> None:
        self._options: dict[str, Any] = {
            "chunk_rows": chunk_rows,
            "label_smoothing": label_smoothing,
            "z_loss": z_loss,
        }
        self.document_mask = document_mask
        self.autocast = autocast
        self.head_loss: Callable[..., LossSum] = loss_sum
        self._compiled = compiled
        self._trunks: dict[int, Callable[..., Tensor]] = {}

    def __call__(self, model: Any, batch: Batch) -> LossSums:
        """Sums over the active targets of `batch`, float32 scalars."""
        device = batch.inputs.device.type
        with torch.autocast(device, dtype=torch.bfloat16) if self.autocast else nullcontext():
            if not hasattr(model, "hidden"):
                return self._from_logits(model(batch.inputs), batch)
            mask = {"document_ids": batch.document_ids} if self.document_mask else {}
            return self.of_hidden(model, self._trunk(model)(batch.inputs, **mask), batch.targets)

    def of_hidden(self, model: Any, hidden: Tensor, targets: Tensor) -> LossSums:
        """The sums from the stream after the last norm, `[rows, seq, d_model]`."""
        softcap = getattr(getattr(model, "config", None), "softcap", None)
        sums = self.head_loss(hidden, model.head_weight, targets, softcap=softcap, **self._options)
        return LossSums(sums.objective, sums.nats)

    def _trunk(self, model: Any) -> Callable[..., Tensor]:
        if not self._compiled:
            hidden: Callable[..., Tensor] = model.hidden
            return hidden
        if id(model) not in self._trunks:
            self._trunks[id(model)] = torch.compile(model.hidden, dynamic=False)
        return self._trunks[id(model)]

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
