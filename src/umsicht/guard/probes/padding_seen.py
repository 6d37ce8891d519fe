"""T8 on padded rows: does the text look at the padding before it? A mask left out on the way is seen in the loss alone."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from umsicht.findings import Finding
from umsicht.guard.adapt_batch import Example
from umsicht.guard.probes.silent import silent
from umsicht.guard.subject import Cannot, Subject, numbers, to_device, token_id

STAGE = "documents"
LEAST = 2
"""Pads before the text: one may be a begin token with the same id."""


def padding_seen(subject: Subject) -> Iterator[Finding]:
    """Other ids in the padding before the text must leave the loss of the text as it is."""
    view, loss, module = subject.need_model(), subject.need_loss(), subject.need_module()
    pad = token_id(subject.tokenizer, "pad") if subject.tokenizer is not None else None
    example, padding = _padded_on_the_left(subject.examples, pad)
    example = to_device(example, view.device)
    other = torch.randint(
        0, subject.usable_ids, example.ids.shape, generator=torch.Generator().manual_seed(7)
    )
    changed = torch.where(padding.to(view.device), other.to(example.ids), example.ids)
    with torch.no_grad(), silent(module), subject.awake(), view.mode(training=True):
        plain = float(loss.of(example))
        moved = float(loss.of(example.with_ids(changed)))
    if abs(moved - plain) > 1e-4 * max(1.0, abs(plain)):
        yield Finding(
            "CONTEXT/padding-attended",
            "stop",
            STAGE,
            location="model: padding before the text",
            numbers=numbers(
                rows=int(padding.any(1).sum()),
                pads=int(padding.sum()),
                loss=plain,
                changed=moved,
                mask=int(example.attention_mask is not None),
            ),
        )


def _padded_on_the_left(examples: list[Example], pad: int | None) -> tuple[Example, torch.Tensor]:
    """A few rows with padding before their text, and where it is: by the mask, or without one by the pad token."""
    for example in examples:
        if example.attention_mask is None and pad is None:
            continue
        unreal = ~example.real if example.attention_mask is not None else torch.eq(example.ids, pad or 0)
        before = unreal.cpu().int().cummin(dim=1).values.bool()
        if example.labels is not None:
            before &= example.labels.cpu() < 0
        rows = before.sum(1) >= LEAST
        rows &= ~before.all(1)
        if bool(rows.any()):
            chosen = rows.nonzero().flatten()[:4]
            return example.take(chosen), before[chosen]
    raise Cannot("no row has padding before its text")
