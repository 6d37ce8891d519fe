"""T15: every sample once an epoch, in an order that holds when asked again, changes from epoch to epoch, and mixes as declared."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from umsicht.findings import Finding
from umsicht.guard.probes.loader import Fed, epoch_steps, fed
from umsicht.guard.probes.row_contents import ROWS_COUNTED, Ledger, explain, haystack_of
from umsicht.guard.subject import Subject, numbers
from umsicht.tokens.batch import Batch


def order(subject: Subject) -> Iterator[Finding]:
    """No repeats inside an epoch, a new order every epoch, the same batch whenever it is asked for, ranks that share out the rows, the declared mix."""
    source = subject.need("source", "a batch source")
    yield from _repeats(subject, source)
    yield from _same_when_asked_again(subject, source)
    yield from _ranks(source)
    yield from _mix(subject, source)


def _content(batch: Batch) -> list[int]:
    return [hash(row.tobytes()) for row in batch.inputs.numpy()]


def _repeats(subject: Subject, source: Any) -> Iterator[Finding]:
    loader = fed(subject)
    edge, per_batch = loader.edge, loader.rows
    steps = (
        list(range(edge))
        if edge * per_batch <= ROWS_COUNTED
        else [
            *range(ROWS_COUNTED // (2 * per_batch)),
            *range(max(0, edge - ROWS_COUNTED // (4 * per_batch)), edge),
        ]
    )
    if len(steps) < edge:
        # The batch across the edge of the epoch holds rows of both.
        steps = [step for step in steps if source.epoch(step + 1) <= 1.0]
    seen: dict[int, int] = {}
    contents: dict[int, int] = {}
    repeats = copies = rows_seen = 0
    where = ""
    total = int(getattr(source, "total_rows", 0)) or None
    # With a declared mix a source may come round again before the whole has; its own passes are counted then.
    by_group = bool(subject.declared.shares)
    for step in dict.fromkeys(steps):
        batch = loader.batch(step)
        for number, content in zip(batch.rows.tolist(), _content(batch), strict=True):
            rows_seen += 1
            if total is not None and rows_seen > total and len(steps) == edge:
                break
            if number in seen and not by_group:
                repeats += 1
                where = where or f"step {step}, sample {number}, first at step {seen[number]}"
            if content in contents and contents[content] != number:
                copies += 1
            if content in contents and number not in seen:
                where = where or f"step {step}, sample {number}"
            seen.setdefault(number, step)
            contents.setdefault(content, number)
    if repeats and not subject.declared.ordered:
        yield Finding(
            "DATA-ORDER/repeats",
            "stop",
            "data-order",
            location=f"data order: {where}",
            numbers=numbers(repeats=repeats, rows=rows_seen, share=repeats / rows_seen),
        )
    elif copies > max(4, 0.02 * rows_seen):
        yield Finding(
            "DATA-ORDER/copies",
            "stop",
            "data-order",
            location=f"data order: {where}",
            numbers=numbers(copies=copies, rows=rows_seen, share=copies / rows_seen),
        )
    elif total is not None and len(steps) == edge and not by_group and len(seen) < total:
        yield Finding(
            "DATA-ORDER/never-read",
            "stop",
            "data-order",
            location="data order",
            numbers=numbers(read=len(seen), rows=total, share=1 - len(seen) / total),
        )
    if edge >= 1 and not by_group:
        yield from _order_of_epochs(subject, loader)


def _order_of_epochs(subject: Subject, loader: Fed) -> Iterator[Finding]:
    """Neighbours of one epoch must not be neighbours in the next, wherever the second one begins to repeat the first."""
    edge = loader.edge
    first = [value for step in range(min(edge, 400)) for value in loader.batch(step).rows.tolist()]
    later = range(edge + 1, edge + 1 + min(12, edge))
    second = [value for step in later for value in loader.batch(step).rows.tolist()]
    neighbours = set(zip(first, first[1:], strict=False))
    pairs = list(zip(second, second[1:], strict=False))
    kept = sum(pair in neighbours for pair in pairs)
    if len(pairs) >= 8 and kept > 0.5 * len(pairs):
        yield Finding(
            "DATA-ORDER/same-order",
            "stop",
            "data-order",
            location="data order: epoch 1",
            numbers=numbers(rows=len(second), kept=kept, pairs=len(pairs)),
        )
    rising = sum(left < right for left, right in zip(first, first[1:], strict=False))
    if len(first) >= 16 and rising > 0.95 * (len(first) - 1) and not subject.declared.ordered:
        yield Finding(
            "DATA-ORDER/not-shuffled",
            "stop",
            "data-order",
            location="data order",
            numbers=numbers(rows=len(first), runs=len(first) - rising, expected=len(first) / 2),
        )


def _equal(left: Batch, right: Batch) -> bool:
    return (
        torch.equal(left.inputs, right.inputs)
        and torch.equal(left.targets, right.targets)
        and torch.equal(left.document_ids, right.document_ids)
        and torch.equal(left.rows, right.rows)
    )


def _same_when_asked_again(subject: Subject, source: Any) -> Iterator[Finding]:
    """The batch of a step depends on the step alone: not on what was asked before, on random states, or on which object is asked."""
    edge = epoch_steps(source)
    steps = [0, 3, edge, max(0, edge - 1), 1]
    total = getattr(source, "total_steps", None)
    steps = [step for step in steps if total is None or step < max(total, 1)]
    first = {step: source.batch(step) for step in steps}
    torch.manual_seed(987)
    np.random.seed(987)
    fresh = subject.extra.get("fresh_source")
    other = fresh() if fresh is not None else source
    for step in reversed(steps):
        if not _equal(first[step], other.batch(step)):
            yield Finding(
                "DATA-ORDER/not-repeatable",
                "stop",
                "data-order",
                location=f"data order: step {step}",
                numbers=numbers(step=step),
            )
            return


def _ranks(source: Any) -> Iterator[Finding]:
    """The parts of all ranks, put together, are the global batch: nothing twice, nothing left out."""
    for step in (0, 5):
        whole = source.batch(step)
        size = whole.inputs.shape[0]
        for world in (1, 2, 4):
            if size % world:
                continue
            for micro in {1, max(1, size // world), max(1, size // world - 1)}:
                parts = [
                    part for rank in range(world) for part in source.micro_batches(step, micro, rank, world)
                ]
                ids = torch.cat([part.rows for part in parts])
                inputs = torch.cat([part.inputs for part in parts])
                targets = torch.cat([part.targets for part in parts])
                if not (
                    torch.equal(ids, whole.rows)
                    and torch.equal(inputs, whole.inputs)
                    and torch.equal(targets, whole.targets)
                ):
                    repeated = len(ids) - len(set(ids.tolist()))
                    yield Finding(
                        "DATA-ORDER/ranks",
                        "stop",
                        "data-order",
                        location=f"data order: step {step}, {world} ranks",
                        numbers=numbers(world=world, micro_batch=micro, rows=size, repeated=repeated),
                    )
                    return


def _mix(subject: Subject, source: Any) -> Iterator[Finding]:
    """Realised shares, read from the content of rows, against the declared ones; and whether sources come well mixed."""
    ledger: Ledger | None = subject.extra.get("ledger")
    data = subject.extra.get("data")
    if ledger is None or data is None or not ledger.steps:
        return
    declared = dict(subject.declared.shares)
    by = subject.extra.get("mix_by", "source")
    if by not in ("source", "slice"):
        return
    counts = ledger.tokens_by_source if by == "source" else ledger.tokens_by_slice
    total = sum(counts.values())
    if not declared and not subject.declared.ordered:
        labels, names = data.train.labels(by)
        sizes = np.bincount(labels, weights=data.train.lengths.astype(float), minlength=len(names))
        declared = {name: float(size) for name, size in zip(names, sizes, strict=True)}
    yield from _drawn(subject, source, declared)
    scale = sum(declared.values()) or 1.0
    # Tokens of a row belong together: the row, not the token, is what was drawn.
    n_rows = max(1, len(ledger.steps))
    for name, weight in declared.items():
        expected = weight / scale
        found = counts.get(name, 0) / max(1, total)
        sigma = math.sqrt(max(expected * (1 - expected), 1e-4) / n_rows)
        if abs(found - expected) > 4.5 * sigma + 0.01:
            yield Finding(
                "DATA-ORDER/mix",
                "stop",
                "data-order",
                location=f"data order: {name}",
                numbers=numbers(name=name, found=found, declared=expected, rows=n_rows, sigma=sigma),
            )
            return
    yield from _runs(subject, source, data)


def _drawn(subject: Subject, source: Any, declared: dict[str, float]) -> Iterator[Finding]:
    """Shares of the first 4,000 rows by the source's own count: a schedule by arithmetic has no excuse of chance."""
    groups = [getattr(group, "name", "") for group in getattr(source, "groups", ())]
    if (
        not subject.declared.shares
        or not hasattr(source, "group_numbers")
        or not set(declared) <= set(groups)
    ):
        return
    counts: Counter[str] = Counter()
    step = 0
    while sum(counts.values()) < 4000:
        counts.update(groups[number] for number in source.group_numbers(step).tolist())
        step += 1
    total, scale = sum(counts.values()), sum(declared.values())
    for name, weight in declared.items():
        found, expected = counts[name] / total, weight / scale
        if abs(found - expected) > 0.01:
            yield Finding(
                "DATA-ORDER/mix",
                "stop",
                "data-order",
                location=f"data order: {name}",
                numbers=numbers(name=name, found=found, declared=expected, rows=total, sigma=0.0),
            )
            return


def _runs(subject: Subject, source: Any, data: Any) -> Iterator[Finding]:
    """Sources in sorted runs: the number of changes between neighbouring rows against what chance gives."""
    if subject.declared.ordered or len(data.train.sources) < 2:
        return
    haystack = haystack_of(subject, data)
    names: list[str] = []
    ledger = Ledger()
    whole = getattr(source, "packing", "concatenate") == "concatenate"
    for step in range(12):
        batch = fed(subject).batch(step)
        for row in range(min(16, batch.inputs.shape[0])):
            if explain(haystack, ledger, batch, row, step, data, whole) is None:
                names.append(ledger.sources[-1])
    if len(names) < 24:
        return
    shares = [count / len(names) for count in Counter(names).values()]
    chance = 1 - sum(share**2 for share in shares)
    changes = sum(left != right for left, right in zip(names, names[1:], strict=False)) / (len(names) - 1)
    sigma = math.sqrt(max(chance * (1 - chance), 1e-3) / len(names))
    expected_all = _source_spread(data)
    if chance > 0.05 and changes < chance - 5 * sigma and changes < 0.5 * chance:
        yield Finding(
            "DATA-ORDER/not-shuffled",
            "stop",
            "data-order",
            location="data order",
            numbers=numbers(rows=len(names), runs=changes, expected=chance),
        )
    elif expected_all > 0.3 and chance < 0.05 and not subject.declared.shares:
        yield Finding(
            "DATA-ORDER/not-shuffled",
            "stop",
            "data-order",
            location="data order",
            numbers=numbers(rows=len(names), runs=changes, expected=expected_all),
        )


def _source_spread(data: Any) -> float:
    """Chance that two tokens of the data come from different sources."""
    labels, names = data.train.labels("source")
    sizes = np.bincount(labels, weights=data.train.lengths.astype(float), minlength=len(names))
    shares = sizes / max(1.0, float(sizes.sum()))
    return float(1 - (shares**2).sum())
