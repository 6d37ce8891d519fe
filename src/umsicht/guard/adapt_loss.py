"""One face for every way of computing a loss, and what that loss really trains on.

The gradient of a cross-entropy with respect to the logits is `weight · (softmax − one-hot(target))`. So the *effective* target and weight of
every position can be read from the gradient, whatever the code in between does: shifts, masks, pads, fused kernels, per-row means.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from umsicht.findings import UserError
from umsicht.guard.adapt_batch import Example
from umsicht.guard.adapt_model import ModelView, logits_in, loss_in

_MODEL_WORDS = {"model", "net", "network", "module", "lm", "m", "gpt", "policy"}
_LOGIT_WORDS = {
    "logits",
    "logit",
    "outputs",
    "output",
    "pred",
    "preds",
    "prediction",
    "input",
    "out",
    "y_hat",
    "scores",
    "lm_logits",
}
_TINY = 1e-12


class Outputs(dict[str, Any]):
    """Logits in the dress of a Hugging Face output, for loss functions that expect one."""

    @property
    def logits(self) -> torch.Tensor:
        """The logits."""
        found: torch.Tensor = self["logits"]
        return found


@dataclass(frozen=True)
class Effective:
    """What a loss trains on. `targets` [rows, seq] ids, -1 where nothing is trained; `weights` [rows, seq] float64 ≥ 0; `loss` the scalar.

    `pushed` [rows, seq]: positions whose target the loss makes less likely, as the rejected answer of a preference; `targets` names it there too.
    `pulled` [rows, seq]: positions whose logits the loss moves at all, towards a target or not (z-loss, smoothing). `unsure` [rows, seq]: the
    model is so certain there that a trained position and one left out have the same gradient. None where logits cannot be seen.
    """

    targets: torch.Tensor
    weights: torch.Tensor
    loss: float
    logits: torch.Tensor
    pulled: torch.Tensor | None = None
    unsure: torch.Tensor | None = None
    pushed: torch.Tensor | None = None

    @property
    def active(self) -> torch.Tensor:
        """Positions that carry weight."""
        return self.weights > 0

    @property
    def reference(self) -> float:
        """Mean cross-entropy in float64 over the effective targets, computed apart from the user's code."""
        mask = self.active
        if not bool(mask.any()):
            return float("nan")
        return float(functional.cross_entropy(self.logits[mask].double(), self.targets[mask]))


def _required(function: Callable[..., Any]) -> list[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [
        p.name
        for p in parameters
        if p.kind in kinds and p.default is inspect.Parameter.empty and p.name != "self"
    ]


class LossView:
    """The user's loss as the probes see it.

    `form` is `logits` (loss(logits, labels)), `model` (loss(model, batch)), `batch` (loss(batch)) or `internal` (the model returns its own loss).
    """

    def __init__(self, loss: Callable[..., Any] | None, model: ModelView | None, sample: Example) -> None:
        self.loss = loss
        self.model = model
        self.flat = False
        self.dressed = False
        self.form = self._form(sample)

    # -- which form ------------------------------------------------------------------------------------------------------------
    def _form(self, sample: Example) -> str:
        if self.loss is None:
            if self.model is None or self.model.target_name is None:
                raise UserError(
                    "loss= is missing and the model computes none itself",
                    "loss=",
                    "what is trained on can only be seen through the loss",
                    "pass loss=lambda logits, targets: … or loss=lambda model, batch: …",
                )
            return "internal"
        if not callable(self.loss):
            raise UserError(
                "loss= is not callable", "loss=", "", "pass a function (logits, targets) or (model, batch)"
            )
        if isinstance(self.loss, nn.Module) or self.loss in (functional.cross_entropy, functional.nll_loss):
            return self._logits_form(sample) or "logits"
        names = _required(self.loss)
        if len(names) == 1:
            return "batch"
        first = names[0].lower() if names else ""
        if first in _MODEL_WORDS and self.model is not None:
            return "model"
        found = self._logits_form(sample)
        if found:
            return found
        if first in _LOGIT_WORDS or self.model is None:
            raise UserError(
                "loss= cannot be called with (logits, targets)",
                "loss=",
                "it raised on logits [rows, seq, vocab] and targets [rows, seq]",
                "pass loss=lambda logits, targets: … that takes these shapes, or loss=lambda model, batch: …",
            )
        return "model"

    def _logits_form(self, sample: Example) -> str:
        """Try loss(logits, labels) as it stands, flattened, and in a Hugging Face dress, on a small case."""
        vocab = int(max(int(sample.ids.max()), 7)) + 3
        labels = sample.labels if sample.labels is not None else sample.ids
        labels = labels[:2]
        if labels.shape[1] == vocab:
            vocab += 1
        logits = torch.zeros(*labels.shape, vocab, device=labels.device)
        for flat, dressed in ((False, False), (True, False), (False, True)):
            self.flat, self.dressed = flat, dressed
            try:
                if loss_in(self._call_logits(logits, labels, sample)) is not None:
                    return "logits"
            except Exception:  # a foreign loss may raise anything while it is being tried
                continue
        self.flat = self.dressed = False
        return ""

    # -- calling it ------------------------------------------------------------------------------------------------------------
    def _call_logits(self, logits: torch.Tensor, labels: torch.Tensor, example: Example) -> Any:
        assert self.loss is not None
        shown: Any = Outputs(logits=logits) if self.dressed else logits
        if self.flat:
            shown, labels = logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)
        names = _required(self.loss) if not isinstance(self.loss, nn.Module) else []
        if len(names) == 3 and not self.flat:
            extra = example.weights if example.weights is not None else example.attention_mask
            return self.loss(shown, labels, extra)
        return self.loss(shown, labels)

    def _scalar(self, output: Any) -> torch.Tensor:
        found = loss_in(output)
        if found is None and isinstance(output, torch.Tensor):
            raise UserError(
                f"loss= returns shape {list(output.shape)}, not one number",
                "loss=",
                "the optimizer needs a scalar",
                "reduce it: .sum() / active targets",
            )
        if found is None:
            raise UserError(
                "loss= returns no loss",
                "loss=",
                f"it returned a {type(output).__name__}",
                "return a scalar tensor",
            )
        return found.reshape(())

    def of_logits(self, logits: torch.Tensor, example: Example) -> torch.Tensor:
        """The loss from given logits; only for the form `logits`."""
        labels = example.labels if example.labels is not None else example.ids
        return self._scalar(self._call_logits(logits, labels.to(logits.device), example))

    def of(self, example: Example) -> torch.Tensor:
        """The training loss of a batch, on the user's own path, as a scalar tensor with its graph."""
        if self.form == "logits":
            assert self.model is not None
            return self.of_logits(self.model.logits(example.ids, **example.context), example)
        if self.form == "internal":
            return self._scalar(self._internal(example))
        assert self.loss is not None
        raw = example.raw
        if self.form == "batch":
            return self._scalar(self.loss(raw))
        assert self.model is not None
        if len(_required(self.loss)) >= 3:
            return self._scalar(self.loss(self.model.model, example.ids, example.labels))
        return self._scalar(self.loss(self.model.model, raw))

    def _internal(self, example: Example) -> Any:
        assert self.model is not None and self.model.target_name is not None
        labels = example.labels
        if labels is None:
            labels = example.ids.masked_fill(~example.real, -100)
        positional, keywords = self.model._arguments(example.ids.to(self.model.device), example.context)
        keywords[self.model.target_name] = labels.to(self.model.device)
        return self.model.model(*positional, **keywords)

    # -- what it trains on -----------------------------------------------------------------------------------------------------
    def effective(self, example: Example, vocab: int) -> Effective:
        """The effective target and weight of every position of a batch; see the head of this file."""
        rows, seq = example.ids.shape
        if self.form == "logits":
            generator = torch.Generator().manual_seed(0)
            logits = (
                (0.1 * torch.randn(rows, seq, vocab, generator=generator))
                .to(example.ids.device)
                .requires_grad_(True)
            )
            loss = self.of_logits(logits, example)
            if not loss.requires_grad:
                return _nothing(example, loss, logits)
            (gradient,) = torch.autograd.grad(loss, logits, allow_unused=True)
            return _from_logits(logits, gradient, loss, example)
        with self.tapped(rows, seq) as tap:
            loss = self.of(example)
        return tap.effective(loss, example)

    @contextmanager
    def tapped(self, rows: int, seq: int) -> Iterator[Tap]:
        """Listen to the model while the user's own code calls it."""
        assert self.model is not None
        tap = Tap(self.model, rows, seq)
        with tap:
            yield tap

    def training_logits(self, example: Example) -> torch.Tensor | None:
        """Logits `[rows, seq, vocab]` as the training path makes them, or None where it never makes them."""
        rows, seq = example.ids.shape
        if self.form == "logits":
            assert self.model is not None
            return self.model.logits(example.ids, **example.context)
        with self.tapped(rows, seq) as tap:
            self.of(example)
        return tap.logits


def _nothing(example: Example, loss: torch.Tensor, logits: torch.Tensor) -> Effective:
    zeros = torch.zeros(example.ids.shape, dtype=torch.float64)
    return Effective(torch.full(example.ids.shape, -1), zeros, float(loss.detach()), logits.detach())


def _from_logits(
    logits: torch.Tensor, gradient: torch.Tensor | None, loss: torch.Tensor, example: Example
) -> Effective:
    if gradient is None or gradient.dim() != 3:
        return _nothing(example, loss, logits)
    clean = torch.nan_to_num(gradient.detach().double())
    pushed = _pushed_away(clean)
    clean = torch.where(pushed[:, None, None], -clean, clean)
    lowest, target = clean.min(dim=-1)
    share = torch.softmax(logits.detach().double(), dim=-1).gather(-1, target.unsqueeze(-1)).squeeze(-1)
    weights = (-lowest / (1 - share).clamp_min(1e-6)).clamp_min(0)
    top = float(weights.max()) if weights.numel() else 0.0
    weights = torch.where(weights > top * 1e-9, weights, torch.zeros_like(weights))
    target = torch.where(weights > _TINY, target, torch.full_like(target, -1))
    pull = clean.abs().sum(dim=-1)
    pulled = pull > float(pull.max()) * 1e-6 if pull.numel() else pull > 0
    certain = torch.softmax(logits.detach().double(), dim=-1).amax(dim=-1) > 1 - 1e-6
    return Effective(
        target.cpu(),
        weights.cpu(),
        float(loss.detach()),
        logits.detach().cpu(),
        pulled.cpu(),
        (certain & ~pulled).cpu(),
        (pushed[:, None] & (weights > 0)).cpu(),
    )


def _pushed_away(gradient: torch.Tensor) -> torch.Tensor:
    """Rows `[rows]` whose targets the loss makes less likely, from the gradient on the logits `[rows, seq, vocab]`.

    A cross-entropy pulls one logit up and all others down, by as much together; a preference turns both round in the rejected row. Only where
    another row is pulled the ordinary way: a loss that turns everything round is a wrong sign, and is judged as such.
    """
    up, down = -gradient.amin(dim=-1), gradient.amax(dim=-1)
    loud = (up + down) > 1e-6 * (up + down).max().clamp_min(_TINY)
    balanced = gradient.sum(-1).abs() <= 1e-3 * gradient.abs().sum(-1)
    turned = loud & balanced & (down > 1.2 * up)
    plain = loud & (up > 1.2 * down)
    counts = loud.sum(1).clamp_min(1)
    rows = (turned.sum(1) > 0.9 * counts) & loud.any(1)
    return rows & bool((plain.sum(1) > 0.9 * counts).any())


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
                return _from_logits(joined[0], joined[1], loss, example)
            for found in reversed(self.outputs):
                if found.grad is not None and found.shape[1] == self.seq:
                    return _from_logits(found, found.grad, loss, example)
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
