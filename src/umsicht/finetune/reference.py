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

TOLERANCE = 1e-5
"""Policy and reference take the same path; on another device or with another kernel rounding may differ."""


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

    @torch.no_grad()
    def drawn_logps(self, batch: Batch, temperature: float) -> Tensor:
        """As `logps`, for targets drawn at `temperature`."""
        with evaluating(self._copy), self._switched_off():
            return drawn_logps_of(self._copy, batch, temperature)

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

    def shared_with(self, policy: Transformer) -> list[str]:
        """Names of weights that learn in `policy` and are the reference's own memory; adapters are switched off and do not count."""
        own = {value.data_ptr() for value in self._copy.parameters()}
        return [
            name
            for name, value in policy.named_parameters()
            if value.requires_grad
            and value.data_ptr() in own
            and not (self._shares_base and name.endswith((".lora_a", ".lora_b")))
        ]

    def to(self, device: torch.device) -> Reference:
        """Move the copy; a shared base is moved with the policy."""
        if not self._shares_base:
            self._copy.to(device)
        return self


def logps_of(model: Transformer, batch: Batch) -> Tensor:
    """Log-probability of every target of `batch` under `model`, `[rows, seq]` float32, 0 where nothing is predicted."""
    hidden = model.hidden(batch.inputs, document_ids=batch.document_ids)
    return target_logps(hidden, model.head_weight, batch.targets, softcap=model.config.softcap)


def drawn_logps_of(model: Transformer, batch: Batch, temperature: float) -> Tensor:
    """As `logps_of`, under the distribution that `generate_batch` draws from: logits divided by `temperature`, and no
    chance for the rows of the head that only fill it up. `[rows, seq]` float32."""
    hidden = model.hidden(batch.inputs, document_ids=batch.document_ids)
    head = model.head_weight[: model.config.n_tokens]
    return target_logps(hidden, head, batch.targets, softcap=model.config.softcap, temperature=temperature)


def apart(policy: Transformer, reference: Reference, batch: Batch) -> float:
    """Largest difference of a target's log-probability between policy and reference on `batch`, both in evaluation mode."""
    with torch.no_grad(), evaluating(policy):
        ours, theirs = logps_of(policy, batch), reference.logps(batch)
    return float((ours - theirs).abs().max())


class ReferenceGuard(Hook):
    """Stops the run where the reference is not the policy's start (before the first step), shares what learns with it, or is no
    longer what it was (at every checkpoint)."""

    name = "reference"

    def __init__(
        self, reference: Reference, policy: Transformer, batch: Callable[[], Batch] | None = None
    ) -> None:
        self._reference = reference
        self._policy = policy
        self._batch = batch
        self._expected = reference.digest_now()

    def at_start(self, view: View) -> None:
        """Equality before the first step, and no weight in common that learns; raises StopRun."""
        shared = self._reference.shared_with(self._policy)
        if shared:
            numbers: dict[str, float | int | str] = {"weights": len(shared), "first": shared[0]}
            raise StopRun(Finding("ADAPTER/reference-shared", "stop", "finetune", shared[0], numbers))
        if self._batch is None:
            return
        difference = apart(self._policy, self._reference, self._batch().to(view.device))
        if difference > TOLERANCE:
            numbers = {"difference": float(f"{difference:.3g}"), "tolerance": TOLERANCE}
            raise StopRun(Finding("ADAPTER/reference-differs", "stop", "finetune", "step 0", numbers))

    def at_checkpoint(self, view: View) -> None:
        """Compare hashes; raises StopRun."""
        found = self._reference.digest_now()
        if found != self._expected:
            numbers = {"step": view.step, "expected": self._expected[:12], "found": found[:12]}
            raise StopRun(
                Finding("ADAPTER/reference-moved", "stop", "finetune", f"step {view.step}", numbers)
            )
