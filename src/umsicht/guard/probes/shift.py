"""T5: which token is each position trained to predict? Read from the batch's labels and from the gradient of the real loss."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from umsicht.findings import Finding
from umsicht.guard.adapt_batch import Example
from umsicht.guard.probes.mask import expected_active
from umsicht.guard.subject import Subject, numbers, token_id

STAGE = "target-shift"
OFFSETS = (-2, -1, 0, 1, 2, 3)


def shift(subject: Subject) -> Iterator[Finding]:
    """Exactly one shift between text and effective target: none is copying, two is skipping a token."""
    data = list(_labels(subject))
    yield from data
    if subject.loss is None or subject.model is None:
        return
    if any(finding.id == "TARGET-SHIFT/labels-unrelated" for finding in data):
        return
    found = list(_effective(subject))
    yield from found
    if not found:
        yield from _edges(subject)


def _labels(subject: Subject) -> Iterator[Finding]:
    """The labels in the data: shifted by one, or the ids themselves; the same in every row."""
    examples = [example for example in subject.examples if example.labels is not None]
    if not examples:
        return
    offset = subject.label_offset
    if not any(bool(example.active.any()) for example in examples):
        return
    if offset is None:
        best, share = _best_offset(examples)
        yield Finding(
            "TARGET-SHIFT/labels-unrelated" if share < 0.5 else "TARGET-SHIFT/labels-offset",
            "stop",
            STAGE,
            location="rows",
            numbers=numbers(offset=best, share=share, batches=len(examples)),
        )
        return
    rows, wrong, where = 0, 0, ""
    for index, example in enumerate(examples):
        mismatched = mismatch(example, offset)
        rows += example.ids.shape[0]
        bad = mismatched.any(dim=1)
        if bool(bad.any()) and not where:
            row = int(bad.nonzero()[0])
            where = f"batch {index}, row {row}, position {int(mismatched[row].nonzero()[0])}"
        wrong += int(bad.sum())
    if wrong:
        yield Finding(
            "TARGET-SHIFT/rows-disagree",
            "stop",
            STAGE,
            location=f"rows: {where}",
            numbers=numbers(rows=rows, wrong=wrong, share=wrong / rows, offset=offset),
        )


def mismatch(example: Example, offset: int) -> torch.Tensor:
    """True where an active label is not the id `offset` positions on, `[rows, seq]`; the last `offset` positions cannot be compared."""
    assert example.labels is not None
    seq = example.ids.shape[1]
    out = torch.zeros_like(example.ids, dtype=torch.bool)
    stop = seq - offset
    compare = example.active[:, :stop] & example.real[:, offset:] & example.real[:, :stop]
    out[:, :stop] = compare & (example.labels[:, :stop] != example.ids[:, offset:])
    return out


def _best_offset(examples: list[Example]) -> tuple[int, float]:
    scores = {}
    for offset in OFFSETS:
        values = [score for score in (example.agreement(offset) for example in examples) if score == score]
        scores[offset] = sum(values) / len(values) if values else 0.0
    best = max(scores, key=lambda key: scores[key])
    return best, scores[best]


def effective_offsets(targets: torch.Tensor, active: torch.Tensor, ids: torch.Tensor) -> dict[int, float]:
    """Share of active positions whose effective target is the id `k` positions on, for each k."""
    seq = ids.shape[1]
    shares = {}
    for offset in OFFSETS:
        low, high = max(0, -offset), min(seq, seq - offset)
        if high <= low:
            continue
        mask = active[:, low:high]
        same = targets[:, low:high] == ids[:, low + offset : high + offset]
        shares[offset] = float(same[mask].float().mean()) if bool(mask.any()) else 0.0
    return shares


def _effective(subject: Subject) -> Iterator[Finding]:
    """The real batch on the real path: what does the loss pull each position towards?"""
    example = synthetic(subject, subject.small)
    found = subject.effective(example)
    ids = example.ids.cpu()
    # What is trained although the batch ignores it has no right target: that is the next stage's to name.
    active = found.active & expected_active(example, subject.label_offset).cpu()
    active = active if bool(active.any()) else found.active
    if not bool(active.any()):
        return
    shares = effective_offsets(found.targets, active, ids)
    best = max(shares, key=lambda key: shares[key])
    if best != 1 and shares[best] > shares.get(1, 0.0):
        yield Finding(
            "TARGET-SHIFT/offset",
            "stop",
            STAGE,
            location="loss",
            numbers=numbers(
                offset=best,
                share=shares[best],
                share_right=shares.get(1, 0.0),
                label_offset=subject.label_offset,
            ),
        )
        return
    wrong = active[:, :-1] & (found.targets[:, :-1] != ids[:, 1:])
    if bool(wrong.any()):
        row, position = (int(value) for value in wrong.nonzero()[0])
        count, total = int(wrong.sum()), int(active[:, :-1].sum())
        yield Finding(
            "TARGET-SHIFT/some-positions",
            "stop",
            STAGE,
            location=f"loss: row {row}, position {position}",
            numbers=numbers(wrong=count, active=total, share=count / total, share_right=shares.get(1, 0.0)),
        )


def _edges(subject: Subject) -> Iterator[Finding]:
    """The last position of a row must be trained on its own row's next token, or on nothing."""
    example = synthetic(subject, subject.small)
    found = subject.effective(example)
    last = found.targets[:, -1]
    active = found.active[:, -1]
    if not bool(active.any()) or example.ids.shape[0] < 2:
        return
    if subject.label_offset == 1 and example.labels is not None:
        labels = example.labels[:, -1].cpu()
        wrong = active & (labels >= 0) & (last != labels)
    else:
        wrong = active
    if bool(wrong.any()):
        following = torch.roll(example.ids[:, 0].cpu(), -1)
        across = int((last[wrong] == following[wrong]).sum())
        yield Finding(
            "TARGET-SHIFT/row-edge",
            "stop",
            STAGE,
            location=f"loss: position {example.ids.shape[1] - 1}",
            numbers=numbers(rows=example.ids.shape[0], wrong=int(wrong.sum()), across_rows=across),
        )


def synthetic(subject: Subject, example: Example, seed: int = 0) -> Example:
    """The batch with every ordinary id replaced by a random one, its masks, pads and special tokens kept.

    Real text repeats itself, so an offset of 2 often looks like an offset of 1; random text does not.
    """
    tokenizer = subject.tokenizer
    special = (
        {token_id(tokenizer, role) for role in ("eos", "bos", "pad", "unk")}
        if tokenizer is not None
        else set()
    )
    keep = torch.zeros_like(example.ids, dtype=torch.bool)
    for value in special:
        if value is not None:
            keep |= example.ids == value
    keep |= ~example.real
    pool = torch.unique(torch.cat([batch.ids.reshape(-1).cpu() for batch in subject.examples]))
    pool = (
        pool[torch.tensor([int(value) not in special for value in pool], dtype=torch.bool)]
        if special
        else pool
    )
    if pool.numel() < 8:
        pool = torch.arange(min(subject.vocab, 256))
    generator = torch.Generator().manual_seed(subject.seed + 71 + seed)
    rows, seq = example.ids.shape
    drawn = pool[torch.randint(0, pool.numel(), (rows, seq + 1), generator=generator)].to(example.ids)
    ids = torch.where(keep, example.ids, drawn[:, :seq])
    if example.labels is None:
        return example.with_ids(ids)
    offset = subject.label_offset
    if offset == 1:
        following = torch.cat([ids[:, 1:], drawn[:, seq:]], dim=1)
    elif offset == 0:
        following = ids
    else:
        return example
    labels = torch.where(example.labels >= 0, following.to(example.labels), example.labels)
    if offset == 1:
        # A special token as last label stays: it decides masks that look at ids.
        last = example.labels[:, -1]
        for value in special:
            if value is not None:
                labels[:, -1] = torch.where(last == value, last, labels[:, -1])
    return example.with_ids(ids, labels)
