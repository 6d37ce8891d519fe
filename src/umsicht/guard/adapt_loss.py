"""One face for every way of computing a loss."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from umsicht.findings import UserError
from umsicht.guard.adapt_batch import Example
from umsicht.guard.adapt_model import ModelView, loss_in
from umsicht.guard.effective import Effective, from_logits, nothing
from umsicht.guard.tap import Tap
from umsicht.words import t

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


class Outputs(dict[str, Any]):
    """Logits in the dress of a Hugging Face output, for loss functions that expect one."""

    @property
    def logits(self) -> torch.Tensor:
        """The logits."""
        found: torch.Tensor = self["logits"]
        return found


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
                    t("guard.api.no_loss.what"),
                    "loss=",
                    t("guard.api.no_loss.why"),
                    t("guard.api.no_loss.fix"),
                )
            return "internal"
        if not callable(self.loss):
            raise UserError(t("guard.api.loss_call.what"), "loss=", fix=t("guard.api.loss_call.fix"))
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
                t("guard.api.loss_form.what"),
                "loss=",
                t("guard.api.loss_form.why"),
                t("guard.api.loss_form.fix"),
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
                t("guard.api.loss_shape.what", shape=list(output.shape)),
                "loss=",
                t("guard.api.loss_shape.why"),
                t("guard.api.loss_shape.fix"),
            )
        if found is None:
            raise UserError(
                t("guard.api.loss_value.what"),
                "loss=",
                t("guard.api.loss_value.why", kind=type(output).__name__),
                t("guard.api.loss_value.fix"),
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
        """The effective target and weight of every position of a batch; see `umsicht.guard.effective`."""
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
                return nothing(example, loss, logits)
            (gradient,) = torch.autograd.grad(loss, logits, allow_unused=True)
            return from_logits(logits, gradient, loss, example)
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
