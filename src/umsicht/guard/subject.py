"""What is under test: everything that a probe may look at, and the promise to leave it as it was."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from umsicht.findings.finding import Grade
from umsicht.guard.adapt_batch import Example, shifted
from umsicht.guard.adapt_loss import LossView
from umsicht.guard.adapt_model import ModelView
from umsicht.guard.declared import Declared
from umsicht.guard.effective import Effective


class Cannot(Exception):
    """A probe cannot look at this subject; the reason is shown in the report, never counted as passed."""


@dataclass
class Subject:
    """One model, one loss, some batches, and whatever else somebody gave; None where nothing was given.

    `examples` are the first batches; `texts` pairs of (slice, text); `extra` holds what only Umsicht's own pipeline has (token data, batch
    source, settings) under the names the probes know.
    """

    model: ModelView | None = None
    loss: LossView | None = None
    examples: list[Example] = field(default_factory=list)
    batches: Any = None
    tokenizer: Any = None
    optimizer: torch.optim.Optimizer | Callable[[Any], torch.optim.Optimizer] | None = None
    schedule: Any = None
    texts: Sequence[tuple[str, str]] = ()
    train_step: Callable[..., Any] | None = None
    evaluate: Callable[..., Any] | None = None
    declared: Declared = field(default_factory=Declared)
    seed: int = 0
    quick: bool = False
    extra: dict[str, Any] = field(default_factory=dict)
    steps_taken: int = 0

    # -- what probes ask for ---------------------------------------------------------------------------------------------------
    def need_model(self) -> ModelView:
        """The model, or `Cannot`."""
        if self.model is None:
            raise Cannot("no model was given")
        return self.model

    def need_module(self) -> nn.Module:
        """The model's module, or `Cannot` for a bare callable."""
        module = self.need_model().module
        if module is None:
            raise Cannot("the model is a plain function: its parameters cannot be seen")
        return module

    def need_loss(self) -> LossView:
        """The loss, or `Cannot`."""
        if self.loss is None:
            raise Cannot("no loss was given and the model computes none itself")
        return self.loss

    def need_cross_entropy(self) -> LossView:
        """The loss, or `Cannot` where it also makes tokens less likely: its value is no mean over targets, and its rows belong together."""
        loss = self.need_loss()
        if self.prefers:
            raise Cannot(
                "the loss makes some tokens less likely (a preference or a reward): this needs a cross-entropy"
            )
        return loss

    @functools.cached_property
    def prefers(self) -> bool:
        """Whether the loss of the first batch pushes some rows' tokens away while it pulls others'."""
        if self.loss is None or self.model is None or not self.examples:
            return False
        try:
            with self.undisturbed():
                found = self.effective(self.small)
        except (LookupError, RuntimeError, ValueError):
            return False
        return found.pushed is not None and bool(found.pushed.any())

    @functools.cached_property
    def advantages(self) -> torch.Tensor | None:
        """One number a row of `small`, by which its tokens should become likelier, where the batch of a policy gradient has it."""
        raw, rows = self.small.raw, self.small.ids.shape[0]
        found = raw.get("advantages") if isinstance(raw, Mapping) else None
        if not isinstance(found, torch.Tensor) or found.shape[:1] != (rows,) or found.dim() > 2:
            return None
        return found.float().reshape(rows, -1).mean(1).cpu()

    def need_example(self) -> Example:
        """The first batch, or `Cannot`."""
        if not self.examples:
            raise Cannot("no batches were given")
        return self.examples[0]

    def need(self, name: str, what: str) -> Any:
        """Something only some subjects have, or `Cannot`."""
        found = self.extra.get(name)
        if found is None:
            raise Cannot(f"{what} was not given")
        return found

    def take_step(self, optimizer: torch.optim.Optimizer, micro_batches: list[Any]) -> None:
        """One whole step of the user's own loop, counted: a loop may keep a counter that nobody else can put back."""
        if self.train_step is None:
            raise Cannot("no train_step was given")
        self.steps_taken += 1
        self.train_step(self.need_model().model, optimizer, micro_batches)

    @functools.cached_property
    def label_offset(self) -> int | None:
        """1 where the batches' labels are already the next tokens, 0 where they are the ids; None where neither."""
        return shifted(self.examples)

    @functools.cached_property
    def vocab(self) -> int:
        """Width of the logits."""
        example = self.need_example()
        small = example.take(slice(0, 1))
        with torch.no_grad(), self.need_model().mode(training=False):
            return int(
                self.need_model().logits(small.ids.to(self.need_model().device), **small.context).shape[-1]
            )

    @functools.cached_property
    def usable_ids(self) -> int:
        """Ids that data may contain: those of the tokenizer where one was given, else the width of the logits."""
        known = token_count(self.tokenizer) if self.tokenizer is not None else None
        rows = self.model.embedding_rows if self.model is not None else None
        limits = [limit for limit in (known, rows, self.vocab) if limit]
        return min(limits)

    @functools.cached_property
    def small(self) -> Example:
        """The first batch, at most 4 rows and at most about 2,048 tokens: enough for whatever is looked at position by position."""
        example = self.need_example()
        rows = max(1, min(4, example.ids.shape[0], 2048 // max(1, example.ids.shape[1]) or 1))
        return to_device(example.take(slice(0, rows)), self.need_model().device)

    def effective(self, example: Example) -> Effective:
        """What the loss trains on in `example`; the training path, dropout off by seed rather than by mode."""
        return self.need_loss().effective(example, self.vocab)

    @functools.cached_property
    def looks_fresh(self) -> bool:
        """Whether the weights look untrained: said so, or the loss on real text is not clearly below ln V."""
        if self.declared.freshly_initialised is not None:
            return self.declared.freshly_initialised
        with torch.no_grad():
            loss = float(self.need_loss().of(self.small))
        return not loss < math.log(self.vocab) - 1.0

    # -- leaving no trace ------------------------------------------------------------------------------------------------------
    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Random states, modes and gradients are put back after the block."""
        state = random_state()
        module = self.model.module if self.model is not None else None
        modes = {child: child.training for child in module.modules()} if module is not None else {}
        gradients = (
            [(parameter, parameter.grad) for parameter in module.parameters()] if module is not None else []
        )
        try:
            yield
        finally:
            restore_random_state(state)
            for child, was in modes.items():
                child.training = was
            for parameter, gradient in gradients:
                parameter.grad = gradient

    @contextmanager
    def borrowed(self, optimizer: torch.optim.Optimizer | None = None) -> Iterator[None]:
        """Weights, buffers (and an optimizer's state) may be changed inside the block and are put back to the bit."""
        module = self.need_module()
        kept = [(tensor, tensor.detach().clone()) for tensor in unique_tensors(module)]
        saved = _optimizer_state(optimizer) if optimizer is not None else None
        try:
            yield
        finally:
            with torch.no_grad():
                for tensor, value in kept:
                    tensor.copy_(value)
            if optimizer is not None and saved is not None:
                _put_back(optimizer, saved)

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Weights disturbed so that every path carries a signal, inside the block only.

        Models that start with zero output projections compute nothing but the identity: no leak could be seen in them. A plain function has no
        weights to disturb.
        """
        module = self.need_model().module
        if module is None:
            yield
            return
        with self.borrowed():
            wake(module, self.seed)
            yield


def _optimizer_state(
    optimizer: torch.optim.Optimizer,
) -> tuple[list[tuple[Any, dict[str, Any]]], list[dict[str, Any]]]:
    state = [
        (
            parameter,
            {
                key: value.clone() if isinstance(value, torch.Tensor) else copy.copy(value)
                for key, value in fields.items()
            },
        )
        for parameter, fields in optimizer.state.items()
    ]
    groups = [
        {key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups
    ]
    return state, groups


def _put_back(
    optimizer: torch.optim.Optimizer, saved: tuple[list[tuple[Any, dict[str, Any]]], list[dict[str, Any]]]
) -> None:
    # Not load_state_dict: it casts moments to the dtype of the parameter.
    optimizer.state.clear()
    for parameter, fields in saved[0]:
        optimizer.state[parameter] = fields
    for group, values in zip(optimizer.param_groups, saved[1], strict=True):
        group.update(values)


def wake(module: nn.Module, seed: int) -> None:
    """Add noise of the size of a usual initialisation (variance 1 / fan-in) to every parameter that is quieter than that."""
    generator = torch.Generator().manual_seed(seed + 4099)
    with torch.no_grad():
        for parameter in module.parameters():
            if not parameter.is_floating_point() or parameter.numel() == 0:
                continue
            usual = parameter.shape[-1] ** -0.5 if parameter.dim() > 1 else 0.1
            spread = float(parameter.float().std()) if parameter.numel() > 1 else 0.0
            noise = torch.randn(parameter.shape, generator=generator).to(parameter.device, parameter.dtype)
            if not math.isfinite(spread):
                continue
            wanted = max(usual, spread) if parameter.dim() > 1 else usual
            missing = math.sqrt(max(0.0, wanted**2 - spread**2)) if parameter.dim() > 1 else wanted
            parameter.add_(noise, alpha=missing)


def unique_tensors(module: nn.Module) -> list[torch.Tensor]:
    """Parameters and buffers, each storage once."""
    seen: dict[tuple[int, torch.Size], torch.Tensor] = {}
    for tensor in [*module.parameters(), *module.buffers()]:
        seen.setdefault((tensor.data_ptr(), tensor.shape), tensor)
    return list(seen.values())


def random_state() -> tuple[Any, ...]:
    """State of every global random generator that training code uses."""
    import random

    import numpy as np

    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else None
    return torch.get_rng_state(), random.getstate(), np.random.get_state(), cuda


def restore_random_state(state: tuple[Any, ...]) -> None:
    """The inverse of `random_state`."""
    import random

    import numpy as np

    torch.set_rng_state(state[0])
    random.setstate(state[1])
    np.random.set_state(state[2])
    if state[3] is not None:
        torch.cuda.set_rng_state_all(state[3])


def to_device(example: Example, device: torch.device) -> Example:
    """The example on another device; nothing is copied where it is there already."""
    if example.ids.device == device:
        return example
    moved = {
        name: value.to(device) if isinstance(value, torch.Tensor) else value
        for name, value in vars(example).items()
        if name != "raw"
    }
    from umsicht.guard.adapt_batch import _map

    return Example(raw=_map(example.raw, lambda value: value.to(device)), **moved)


def token_count(tokenizer: Any) -> int | None:
    """Every id a tokenizer can give, added ones included."""
    for read in (
        lambda: tokenizer.n_tokens,
        lambda: len(tokenizer),
        lambda: tokenizer.get_vocab_size(),
        lambda: tokenizer.n_vocab,
    ):
        try:
            value = read()
        except (AttributeError, TypeError, NotImplementedError):
            continue
        if isinstance(value, int) and value > 0:
            return value
    for name in ("vocab_size", "n_vocab"):
        value = getattr(tokenizer, name, None)
        if isinstance(value, int):
            return value
    return None


def token_id(tokenizer: Any, role: str) -> int | None:
    """The id of `eos`, `bos`, `pad` or `unk`, whatever the tokenizer calls it."""
    for name in (f"{role}_id", f"{role}_token_id"):
        value = getattr(tokenizer, name, None)
        if callable(value):
            value = value()
        if isinstance(value, int) and value >= 0:
            return value
    if role == "eos":
        value = getattr(tokenizer, "eot_token", None)
        return value if isinstance(value, int) else None
    return None


def grade_if(stops: bool, otherwise: Grade = "warn") -> Grade:
    """`stop` where `stops`, else the milder grade."""
    return "stop" if stops else otherwise


def numbers(**values: Any) -> Mapping[str, Any]:
    """Numbers of a finding: tensors and numpy scalars become plain ones, floats keep six digits."""
    plain: dict[str, Any] = {}
    for name, value in values.items():
        if hasattr(value, "item") and not isinstance(value, str):
            value = value.item()
        plain[name] = float(f"{value:.6g}") if isinstance(value, float) and math.isfinite(value) else value
        if isinstance(plain[name], float) and not math.isfinite(plain[name]):
            plain[name] = str(plain[name])
    return plain
