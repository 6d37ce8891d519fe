"""The loss that a `transformers.Trainer` logs, against the cross-entropy of what its model answered: is it a mean over all micro-batches, or their sum?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from umsicht.findings import Finding
from umsicht.guard.subject import numbers

CALLS, POSITIONS = 64, 1024
"""Calls of the model whose cross-entropy is taken, and positions of each."""
LIKE = 0.15
"""A sum over two micro-batches is twice the mean: 15 % to either side are no third thing."""


class AccumulatedLoss:
    """Watches the first calls of the model; `logged` compares them with the first loss that the trainer tells."""

    def __init__(self, model: nn.Module, micro_batches: int) -> None:
        self.model, self.micro_batches = model, micro_batches
        self._nats: list[float] = []
        self._open = micro_batches > 1
        self._handle = model.register_forward_hook(self._see, with_kwargs=True) if self._open else None

    def close(self) -> None:
        """Let go of the model."""
        self._open = False
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    @torch.no_grad()
    def _see(self, module: nn.Module, _: Any, keywords: Mapping[str, Any], output: Any) -> None:
        if not module.training:
            return
        logits: Any = getattr(output, "logits", None)
        targets: Any = keywords.get("labels", keywords.get("input_ids"))
        readable = isinstance(logits, torch.Tensor) and isinstance(targets, torch.Tensor)
        if not readable or len(self._nats) == CALLS or logits.shape[:2] != targets.shape:
            self.close()
            return
        mask = keywords.get("attention_mask")
        if "labels" not in keywords and isinstance(mask, torch.Tensor) and mask.shape == targets.shape:
            targets = targets.masked_fill(mask == 0, -100)
        flat = logits[:, :-1].flatten(0, 1)[:POSITIONS].float()
        self._nats.append(float(functional.cross_entropy(flat, targets[:, 1:].flatten()[:POSITIONS])))

    def logged(self, loss: float, steps: int) -> Finding | None:
        """The trainer's first loss, a mean over `steps` updates; the model is let go of afterwards."""
        told = self._open and len(self._nats) == steps * self.micro_batches
        self.close()
        mean = sum(self._nats) / max(1, len(self._nats))
        if not told or not mean > 0:
            return None
        factor = loss / mean
        if abs(factor / self.micro_batches - 1) > LIKE:
            return None
        return Finding(
            "LOSS-NORM/divisor",
            "stop",
            "batch-algebra",
            location="training step",
            numbers=numbers(
                gap=factor - 1,
                factor=factor,
                cosine=1.0,
                micro_batches=self.micro_batches,
                case="log",
                call=1,
            ),
        )
