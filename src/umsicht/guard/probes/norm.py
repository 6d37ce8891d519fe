"""What one number of loss stands for: equal weight for every active target, their mean, in float32."""

from __future__ import annotations

import math
from collections.abc import Iterator

from umsicht.findings import Finding
from umsicht.guard.adapt_batch import Example
from umsicht.guard.effective import Effective
from umsicht.guard.probes.mask import expected_active
from umsicht.guard.subject import Subject, numbers, to_device

STAGE = "loss-norm"


def loss_norm(subject: Subject) -> Iterator[Finding]:
    """Weights from the gradient, value against an independent float64 cross-entropy; on the real batch and on an unevenly masked one."""
    subject.need_cross_entropy()
    subject.need_model()
    for example in _batches(subject):
        found = subject.effective(example)
        if int(found.active.sum()) < 2:
            continue
        problem = _judge(subject, found, example)
        if problem is not None:
            yield problem
            return


def _batches(subject: Subject) -> Iterator[Example]:
    device = subject.need_model().device
    example = subject.small
    yield example
    uneven = unevenly_masked(example)
    if uneven is not None:
        yield to_device(uneven, device)


def unevenly_masked(example: Example) -> Example | None:
    """The batch with ever more labels ignored from row to row; None where the batch has no labels to mask."""
    if example.labels is None:
        return None
    labels = example.labels.clone()
    rows, seq = labels.shape
    for row in range(rows):
        keep = max(2, (seq * (row + 1)) // (rows + 1))
        labels[row, keep:] = -100
    return example.with_ids(example.ids, labels)


def _judge(subject: Subject, found: Effective, example: Example) -> Finding | None:
    active = found.active
    weights = found.weights
    count = int(active.sum())
    total = float(weights.sum())
    exact = subject.need_loss().form == "logits"
    loose = 0.02 if exact else 0.08
    mean = total / count
    rows = [
        float(weights[row][active[row]].mean()) for row in range(weights.shape[0]) if bool(active[row].any())
    ]
    inside = max(
        (
            float(weights[row][active[row]].std(unbiased=False)) / mean
            for row in range(weights.shape[0])
            if int(active[row].sum()) > 1
        ),
        default=0.0,
    )
    across = (max(rows) - min(rows)) / mean if rows else 0.0
    counts = numbers(
        total=total, active=count, spread=max(inside, across), loss=found.loss, reference=found.reference
    )
    declared = subject.declared.loss_mean_over
    if across > 3 * loose and inside < loose and declared != "rows":
        return Finding("LOSS-NORM/row-means", "stop", STAGE, location="loss", numbers=counts)
    if inside > 3 * loose:
        return Finding("LOSS-NORM/uneven-weights", "stop", STAGE, location="loss", numbers=counts)
    if declared == "sum":
        return None
    if abs(total - count) < loose * count and count > 3:
        return Finding("LOSS-NORM/sum", "warn", STAGE, location="loss", numbers=counts)
    positions = example.ids.numel()
    expected = int(expected_active(example, subject.label_offset).sum())
    if abs(total - 1) > 0.15:
        over_all = (
            abs(total - count / positions) < 0.05 * total
            or abs(total - count / max(1, positions - example.ids.shape[0])) < 0.05 * total
        )
        name = (
            "LOSS-NORM/ignored-counted"
            if over_all and count < positions - example.ids.shape[0]
            else "LOSS-NORM/scaled"
        )
        return Finding(
            name,
            "stop",
            STAGE,
            location="loss",
            numbers={**counts, "positions": positions, "expected": expected},
        )
    if (
        math.isfinite(found.reference)
        and exact
        and abs(found.loss - found.reference) > 0.05 * abs(found.reference) + 0.02
    ):
        return Finding("LOSS-NORM/value", "warn", STAGE, location="loss", numbers=counts)
    if (
        not exact
        and math.isfinite(found.reference)
        and abs(found.loss - found.reference) > 0.1 * abs(found.reference) + 0.05
    ):
        return Finding("LOSS-NORM/value", "warn", STAGE, location="loss", numbers=counts)
    return None
