"""T6: which positions carry weight in the loss, and how much, against what the batch and the text say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from umsicht.findings import Finding
from umsicht.guard.adapt_batch import Example
from umsicht.guard.effective import Effective
from umsicht.guard.subject import Subject, numbers, to_device, token_id

STAGE = "active-targets"
LOOKED_AT = 4


def expected_active(example: Example, offset: int | None) -> torch.Tensor:
    """Positions that should carry weight, from the batch's own marks, in terms of the position that predicts."""
    active, real = example.active, example.real
    if offset == 0 or (offset is None and example.labels is None):
        out = torch.zeros_like(active)
        out[:, :-1] = active[:, 1:] & real[:, 1:] & real[:, :-1]
        return out
    return active & real


def target_ids(example: Example, offset: int | None) -> torch.Tensor:
    """The id that each position should predict, -1 where the row ends."""
    if offset == 1 and example.labels is not None:
        ahead = torch.where(example.labels >= 0, example.labels, torch.full_like(example.labels, -1))
        ahead[:, :-1] = example.ids[:, 1:]
        return ahead
    ahead = torch.full_like(example.ids, -1)
    ahead[:, :-1] = example.ids[:, 1:]
    return ahead


def active_targets(subject: Subject) -> Iterator[Finding]:
    """Pads without weight, ignored positions without weight, nothing lost, the end of a document trained, rows not empty."""
    subject.need_example()
    found = list(_rows(subject))
    if subject.loss is not None and subject.model is not None:
        for index, example in enumerate(_distinct(subject)):
            found += _weights(subject, example, index)
    found += _ends(subject)
    found += _empty_batch(subject)
    yield from _first_of_kind(found)


def _first_of_kind(found: list[Finding]) -> Iterator[Finding]:
    seen: set[str] = set()
    for finding in found:
        if finding.id not in seen:
            seen.add(finding.id)
            yield finding


def _distinct(subject: Subject) -> list[Example]:
    """A few batches, those with pads and ignored labels first, cut to a few rows."""
    # First batches whose marks disagree among themselves, then those that ignore most.
    ranked = sorted(
        subject.examples,
        key=lambda example: (-_disagreement(example), float((example.active & example.real).float().mean())),
    )
    chosen = [*ranked[:2], *subject.examples[:LOOKED_AT]]
    out = []
    for example in chosen[:LOOKED_AT]:
        rows = max(1, min(8, 1024 // max(1, example.ids.shape[1])))
        share = (example.active & example.real).float().mean(dim=1)
        order = torch.argsort(share)[:rows]
        out.append(to_device(example.take(order.cpu()), subject.need_model().device))
    return out


def _disagreement(example: Example) -> int:
    """Positions that the labels mark and a weight beside them leaves out."""
    if example.labels is None or example.weights is None:
        return 0
    return int(((example.labels >= 0) & (example.weights <= 0)).sum())


def _rows(subject: Subject) -> Iterator[Finding]:
    """Rows and whole batches without any active target, from the labels alone."""
    rows = empty = dead = active = total = 0
    for example in subject.examples:
        mask = expected_active(example, subject.label_offset)
        rows += mask.shape[0]
        empty += int((~mask.any(dim=1)).sum())
        dead += int(not bool(mask.any()))
        active += int(mask.sum())
        total += int(example.real.sum())
    counts = numbers(
        rows=rows,
        empty=empty,
        share=empty / max(1, rows),
        batches=len(subject.examples),
        dead_batches=dead,
        active=active,
    )
    if active == 0:
        yield Finding("TARGET-MASK/nothing-active", "stop", STAGE, location="targets", numbers=counts)
    elif dead:
        yield Finding("TARGET-MASK/empty-batch", "stop", STAGE, location="targets", numbers=counts)
    elif empty:
        yield Finding("TARGET-MASK/empty-rows", "warn", STAGE, location="targets", numbers=counts)
    if subject.declared.loss_on == "all" and active:
        yield from _all_trained(subject)
    if subject.declared.loss_on == "responses" and active:
        yield from _answers_trained(subject)


def _all_trained(subject: Subject) -> Iterator[Finding]:
    """Declared: every token is trained on. Each real position but the last of a row must then be active."""
    untrained = _Untrained()
    for index, example in enumerate(subject.examples):
        mask = expected_active(example, subject.label_offset)
        should = example.real.clone()
        should[:, :-1] &= example.real[:, 1:]
        should[:, -1] &= subject.label_offset == 1 and mask[:, -1]
        untrained.look(index, should, mask)
    yield from untrained.findings()


def _answers_trained(subject: Subject) -> Iterator[Finding]:
    """Declared: answers are trained on. Where a mask beside the labels says what is answer, all of it must be, its first token too."""
    untrained = _Untrained()
    for index, example in enumerate(subject.examples):
        if example.weights is not None and example.labels is not None:
            untrained.look(index, (example.weights > 0) & example.real, example.labels >= 0)
    yield from untrained.findings()


@dataclass
class _Untrained:
    """Counts positions that should be trained on and are not, and keeps the place of the first."""

    lost: int = 0
    positions: int = 0
    where: str = ""

    def look(self, index: int, should: torch.Tensor, active: torch.Tensor) -> None:
        missing = should & ~active
        self.lost += int(missing.sum())
        self.positions += int(should.sum())
        if bool(missing.any()) and not self.where:
            row, position = (int(value) for value in missing.nonzero()[0])
            self.where = f"batch {index}, row {row}, position {position}"

    def findings(self) -> Iterator[Finding]:
        if self.lost:
            share = self.lost / max(1, self.positions)
            yield Finding(
                "TARGET-MASK/lost",
                "stop",
                STAGE,
                location=f"targets: {self.where}",
                numbers=numbers(lost=self.lost, positions=self.positions, share=share),
            )


def _weights(subject: Subject, example: Example, index: int) -> Iterator[Finding]:
    """What the real loss weighs, position by position."""
    found = subject.effective(example)
    expected = expected_active(example, subject.label_offset).cpu()
    real = example.real.cpu()
    following_real = real.clone()
    following_real[:, :-1] = real[:, 1:]
    active = found.active
    pads = ~(real & (following_real if subject.label_offset != 1 else real))
    padded = active & pads
    # A z-loss or a smoothing of its own pulls at pads without naming a target there.
    touched = found.pulled & ~real if found.pulled is not None else padded
    if bool(padded.any()) or bool(touched.any()):
        yield _at("TARGET-MASK/pad-active", padded if bool(padded.any()) else touched, found, index, expected)
    ignored = active & ~expected & ~padded
    # Without labels the batch does not say what is to be trained on: a loss may mask what it likes.
    if bool(ignored.any()) and example.labels is not None:
        yield _at("TARGET-MASK/ignored-active", ignored, found, index, expected)
    if example.labels is None and example.weights is not None:
        # A mask without labels marks the tokens trained on, or the places that predict them.
        by_place = (example.active & example.real).cpu()
        expected = min((expected, by_place), key=lambda one: int((one != active).sum()))
    lost = expected & ~active
    if found.unsure is not None:
        lost &= ~found.unsure
    if bool(lost.any()) and bool(active.any()):
        ends = _ends_lost(subject, example, lost)
        yield _at(
            "TARGET-MASK/eos-masked" if ends else "TARGET-MASK/lost-in-loss", lost, found, index, expected
        )
    if not bool(active.any()) and bool(expected.any()):
        yield _at("TARGET-MASK/nothing-active", expected, found, index, expected)


def _ends_lost(subject: Subject, example: Example, lost: torch.Tensor) -> bool:
    eos = token_id(subject.tokenizer, "eos") if subject.tokenizer is not None else None
    if eos is None:
        return False
    targets = target_ids(example, subject.label_offset).cpu()
    return bool((targets[lost] == eos).float().mean() > 0.9)


def _at(name: str, mask: torch.Tensor, found: Effective, index: int, expected: torch.Tensor) -> Finding:
    row, position = (int(value) for value in mask.nonzero()[0])
    weight = float(found.weights[mask].sum() / found.weights.sum().clamp_min(1e-30))
    return Finding(
        name,
        "stop",
        STAGE,
        location=f"loss: batch {index}, row {row}, position {position}",
        numbers=numbers(
            positions=int(mask.sum()),
            share_of_weight=weight,
            active=int(found.active.sum()),
            expected=int(expected.sum()),
        ),
    )


def _ends(subject: Subject) -> Iterator[Finding]:
    """Is the end of a document ever a target? A model that never sees it as one never stops."""
    eos = token_id(subject.tokenizer, "eos") if subject.tokenizer is not None else subject.extra.get("eos_id")
    if eos is None:
        return
    seen = trained = 0
    for example in subject.examples:
        targets = target_ids(example, subject.label_offset)
        mask = expected_active(example, subject.label_offset)
        ends = targets == eos
        before = torch.zeros_like(mask)
        before[:, 1:] = mask[:, :-1]
        eligible = ends & before & example.real
        # The token after an end that is itself an end is padding by another name.
        eligible[:, 1:] &= example.ids[:, 1:] != eos
        seen += int(eligible.sum())
        trained += int((eligible & mask).sum())
    if seen and trained < seen:
        yield Finding(
            "TARGET-MASK/eos-masked",
            "stop",
            STAGE,
            location="targets",
            numbers=numbers(ends=seen, trained=trained, share=trained / seen, eos=eos),
        )


def _empty_batch(subject: Subject) -> Iterator[Finding]:
    """Where rows without a target exist, a micro-batch of only such rows must give a finite loss."""
    if subject.loss is None or subject.model is None:
        return
    if not any(
        bool((~expected_active(example, subject.label_offset).any(dim=1)).any())
        for example in subject.examples
    ):
        return
    example = subject.small
    if example.labels is None:
        return
    labels = torch.full_like(example.labels, -100)
    with torch.no_grad():
        loss = subject.need_loss().of(example.with_ids(example.ids, labels))
    if not bool(torch.isfinite(loss)):
        yield Finding(
            "TARGET-MASK/empty-is-nan",
            "stop",
            STAGE,
            location="loss",
            numbers=numbers(loss=float(loss), rows=int(example.ids.shape[0])),
        )
