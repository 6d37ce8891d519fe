"""The reference: the model as it was before the stage, frozen and hashed."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from umsicht.findings import Finding
from umsicht.model import Transformer
from umsicht.model.lora import adapters
from umsicht.score import evaluating, target_logps
from umsicht.tokens.batch import Batch
from umsicht.train.hooks import Hook, StopRun, View


def digest_of(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 over names, shapes and bytes."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name}{tuple(value.shape)}{value.dtype}".encode())
        digest.update(
            value.view(torch.uint8).numpy().tobytes() if value.dim() else str(value.item()).encode()
        )
    return digest.hexdigest()


class Reference:
    """Answers as the model did when this was made.

    With adapters the policy's own frozen base serves (adapters switched off); else a copy is kept. Never learns, never drops out.
    """

    def __init__(self, policy: Transformer) -> None:
        self._policy = policy
        self._shares_base = policy.config.lora is not None
        self._copy = policy if self._shares_base else copy.deepcopy(policy)
        if not self._shares_base:
            self._copy.requires_grad_(False)
            self._copy.eval()
        self.digest = self.digest_now()

    def digest_now(self) -> str:
        """Hash of the weights it answers with, as they are now."""
        state = {
            name: value
            for name, value in self._copy.state_dict().items()
            if not (self._shares_base and name.endswith((".lora_a", ".lora_b")))
        }
        return digest_of(state)

    @torch.no_grad()
    def logps(self, batch: Batch) -> Tensor:
        """Log-probability of every target, `[rows, seq]` float32."""
        with evaluating(self._copy), self._switched_off():
            return logps_of(self._copy, batch)

    @contextmanager
    def _switched_off(self) -> Iterator[None]:
        layers = list(adapters(self._copy).values())
        for layer in layers:
            layer.enabled = False
        try:
            yield
        finally:
            for layer in layers:
                layer.enabled = True

    def to(self, device: torch.device) -> Reference:
        """Move the copy; a shared base is moved with the policy."""
        if not self._shares_base:
            self._copy.to(device)
        return self


def logps_of(model: Transformer, batch: Batch) -> Tensor:
    """Log-probability of every target of `batch` under `model`, `[rows, seq]` float32, 0 where nothing is predicted."""
    hidden = model.hidden(batch.inputs, document_ids=batch.document_ids)
    return target_logps(hidden, model.head_weight, batch.targets, softcap=model.config.softcap)


class ReferenceGuard(Hook):
    """Stops the run where the reference is no longer what it was: at every checkpoint and at the end."""

    name = "reference"

    def __init__(self, digest_now: Callable[[], str]) -> None:
        self._digest_now = digest_now
        self._expected = digest_now()

    def at_checkpoint(self, view: View) -> None:
        """Compare hashes; raises StopRun."""
        found = self._digest_now()
        if found != self._expected:
            numbers = {"step": view.step, "expected": self._expected[:12], "found": found[:12]}
            raise StopRun(
                Finding("ADAPTER/reference-moved", "stop", "finetune", f"step {view.step}", numbers)
            )
