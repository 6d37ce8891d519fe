"""Listening to a model while foreign code calls it."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import nn

from umsicht.guard.adapt_batch import Example
from umsicht.guard.adapt_model import ModelView, logits_in
from umsicht.guard.effective import Effective, from_logits


class Tap:
    """Listens to a model from outside: its logits, the input of its head, and the last hidden state, with their gradients."""

    def __init__(self, model: ModelView, rows: int, seq: int) -> None:
        self.model = model
        self.rows = rows
        self.seq = seq
        self.outputs: list[torch.Tensor] = []
        self.head_outputs: list[torch.Tensor] = []
        self.hidden: list[torch.Tensor] = []
        self.ids: list[torch.Tensor] = []
        self._handles: list[Any] = []

    def __enter__(self) -> Tap:
        module = self.model.module
        if module is None:
            return self
        table = self.model.input_embedding
        width = table.embedding_dim if table is not None else -1
        head = self.model.head(table.num_embeddings if table is not None else None)
        self._handles.append(module.register_forward_hook(self._whole))
        if head is not None:
            self._handles.append(head.register_forward_hook(self._head))
        for child in module.modules():
            if child is not module and child is not head and not list(child.children()):
                self._handles.append(child.register_forward_hook(functools.partial(self._leaf, width)))
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()

    def _whole(self, module: nn.Module, inputs: Any, output: Any) -> None:
        found = logits_in(output, self.rows, self.seq)
        if found is not None:
            self.outputs.append(_keep(found))

    def _head(self, module: nn.Module, inputs: Any, output: Any) -> None:
        if isinstance(output, torch.Tensor):
            self.head_outputs.append(_keep(output))

    def _leaf(self, width: int, module: nn.Module, inputs: Any, output: Any) -> None:
        if (
            isinstance(output, torch.Tensor)
            and output.dim() == 3
            and output.shape == (self.rows, self.seq, width)
        ):
            self.hidden.append(_keep(output))

    def _joined(self) -> tuple[torch.Tensor, torch.Tensor | None] | None:
        """The head's outputs `[rows, seq, vocab]` and their gradients, put together where the loss works in chunks."""
        parts = self.head_outputs
        if not parts:
            return None
        if any(part.grad is None and part.requires_grad for part in parts):
            parts = [part for part in parts if part.grad is not None]
        if not parts:
            return None
        vocab = parts[0].shape[-1]
        axis = 1 if parts[0].dim() == 3 and len(parts) > 1 and parts[0].shape[0] == self.rows else 0
        whole = torch.cat([part.detach() for part in parts], dim=axis)
        if whole.numel() != self.rows * self.seq * vocab:
            return None
        gradients = [part.grad for part in parts if part.grad is not None]
        gradient = (
            torch.cat(gradients, dim=axis).reshape(self.rows, self.seq, vocab)
            if len(gradients) == len(parts)
            else None
        )
        return whole.reshape(self.rows, self.seq, vocab), gradient

    @property
    def logits(self) -> torch.Tensor | None:
        """The logits of the last call, or None."""
        if self.outputs and self.outputs[-1].shape[1] == self.seq:
            return self.outputs[-1]
        joined = self._joined()
        return joined[0] if joined else None

    def effective(self, loss: torch.Tensor, example: Example) -> Effective:
        """Targets and weights from the gradients that `loss` leaves behind; parameter gradients are left as they were."""
        kept = _parameter_gradients(self.model.module)
        try:
            if loss.requires_grad:
                loss.backward()  # type: ignore[no-untyped-call]
            joined = self._joined()
            if joined is not None and joined[1] is not None:
                return from_logits(joined[0], joined[1], loss, example)
            for found in reversed(self.outputs):
                if found.grad is not None and found.shape[1] == self.seq:
                    return from_logits(found, found.grad, loss, example)
            return self._from_hidden(loss, example)
        finally:
            for parameter, gradient in kept:
                parameter.grad = gradient

    def _from_hidden(self, loss: torch.Tensor, example: Example) -> Effective:
        """For losses that never make logits: g = w · Wᵀ(p − one-hot(y)); the y whose direction fits the gradient is the target."""
        weight = self.model.head_weight
        hidden = next((h for h in reversed(self.hidden) if h.grad is not None), None)
        if hidden is None or not isinstance(weight, torch.Tensor) or hidden.grad is None:
            raise LookupError("neither logits nor a last hidden state could be seen on the training path")
        table = weight.detach().float()
        state, gradient = hidden.detach().float(), torch.nan_to_num(hidden.grad.float())
        logits = state @ table.T
        mean = torch.softmax(logits, dim=-1) @ table
        score = (gradient * mean).sum(-1, keepdim=True) - gradient @ table.T
        squared = (mean * mean).sum(-1, keepdim=True) - 2 * mean @ table.T + (table * table).sum(-1)
        length = squared.clamp_min(1e-12).sqrt()
        cosine = score / (length * gradient.norm(dim=-1, keepdim=True).clamp_min(1e-20))
        target = cosine.argmax(dim=-1)
        weights = (gradient.norm(dim=-1) / length.gather(-1, target.unsqueeze(-1)).squeeze(-1)).double()
        top = float(weights.max())
        weights = torch.where(weights > top * 1e-6, weights, torch.zeros_like(weights))
        target = torch.where(weights > 0, target, torch.full_like(target, -1))
        return Effective(target.cpu(), weights.cpu(), float(loss.detach()), logits.cpu())


def _keep(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.requires_grad and not tensor.is_leaf:
        tensor.retain_grad()
    return tensor


def _parameter_gradients(module: nn.Module | None) -> list[tuple[nn.Parameter, torch.Tensor | None]]:
    if module is None:
        return []
    kept = [(parameter, parameter.grad) for parameter in module.parameters()]
    for parameter, _ in kept:
        parameter.grad = None
    return kept
