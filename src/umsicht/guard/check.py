"""`guard.check`: the contracts on anybody's model, loss, batches, tokenizer and optimizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from umsicht.findings import UserError
from umsicht.guard.adapt_batch import Example, take
from umsicht.guard.adapt_loss import LossView
from umsicht.guard.adapt_model import ModelView
from umsicht.guard.declared import Declared
from umsicht.guard.probe import Order, Report
from umsicht.guard.probes import PROBES
from umsicht.guard.subject import Subject
from umsicht.words import t

BATCHES = 32


def check(
    model: Any = None,
    loss: Callable[..., Any] | None = None,
    batches: Any = None,
    tokenizer: Any = None,
    optimizer: Any = None,
    *,
    texts: Iterable[str] | Iterable[tuple[str, str]] = (),
    schedule: Any = None,
    train_step: Callable[..., Any] | None = None,
    evaluate: Callable[..., Any] | None = None,
    declared: Declared | None = None,
    seed: int = 0,
    all: bool = False,
    only: Sequence[str] = (),
    n_batches: int = BATCHES,
    progress: Callable[[str], None] | None = None,
    **extra: Any,
) -> Report:
    """Run every probe that what was given allows; returns the findings, the cause first. Changes nothing it is given.

    `model`: an `nn.Module` or a function ids `[rows, seq]` → logits `[rows, seq, vocab]`; Hugging Face and nanoGPT-like models are taken as they are.
    `loss`: `loss(logits, targets)`, `loss(model, batch)` or nothing where the model computes its own. `batches`: an iterable (or a function that
    makes one) of pairs (ids, targets), mappings with `input_ids` and `labels`, tensors of ids, or `Batch`. `tokenizer`: anything with encode and decode.
    `optimizer`: an optimizer over the model's parameters. `texts`: documents, or pairs (slice, document). `schedule`: step → learning rate, or a
    torch scheduler. `train_step(model, optimizer, batches)`: one whole optimizer step of your loop over a list of micro-batches. `evaluate(model,
    batches)`: your evaluation, one number. `all`: go on after a stage that stops. `only`: names of probes or stages.

    Raises `UserError` naming the argument that cannot be used.
    """
    if model is None and tokenizer is None and batches is None:
        raise UserError(
            t("guard.api.nothing.what"),
            "model=, batches=, tokenizer=",
            t("guard.api.nothing.why"),
            t("guard.api.nothing.fix"),
        )
    subject = make_subject(
        model,
        loss,
        batches,
        tokenizer,
        optimizer,
        texts=texts,
        schedule=schedule,
        train_step=train_step,
        evaluate=evaluate,
        declared=declared or Declared(),
        seed=seed,
        n_batches=n_batches,
        extra=extra,
    )
    return run(subject, all=all, only=only, progress=progress)


def run(
    subject: Subject,
    *,
    all: bool = False,
    only: Sequence[str] = (),
    progress: Callable[[str], None] | None = None,
) -> Report:
    """Run the probes over a subject made elsewhere."""
    return Order(PROBES, all=all, only=frozenset(only), progress=progress).run(subject)


def make_subject(
    model: Any,
    loss: Callable[..., Any] | None,
    batches: Any,
    tokenizer: Any,
    optimizer: Any,
    *,
    texts: Iterable[Any] = (),
    schedule: Any = None,
    train_step: Callable[..., Any] | None = None,
    evaluate: Callable[..., Any] | None = None,
    declared: Declared | None = None,
    seed: int = 0,
    n_batches: int = BATCHES,
    extra: dict[str, Any] | None = None,
) -> Subject:
    """Put every argument into the one shape that probes read. Raises `UserError` naming the argument that does not fit."""
    view = ModelView(model) if model is not None else None
    examples: list[Example] = take(batches, n_batches) if batches is not None else []
    loss_view = None
    if examples and (loss is not None or (view is not None and view.target_name is not None)):
        loss_view = LossView(loss, view, examples[0])
    return Subject(
        model=view,
        loss=loss_view,
        examples=examples,
        batches=batches,
        tokenizer=tokenizer,
        optimizer=optimizer,
        schedule=schedule,
        texts=[pair if isinstance(pair, tuple) else ("text", pair) for pair in texts],
        train_step=train_step,
        evaluate=evaluate,
        declared=declared or Declared(),
        seed=seed,
        extra=dict(extra or {}),
    )
