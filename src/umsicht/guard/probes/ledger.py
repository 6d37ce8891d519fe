"""T4 and T15: what rows really hold, and whether every sample comes once an epoch, in an order that holds and changes as declared."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from umsicht.findings import Finding
from umsicht.guard.probes.loader import Fed, epoch_steps, fed
from umsicht.guard.subject import Subject, numbers
from umsicht.tokens.batch import IGNORE, Batch

ROWS_LOOKED_AT = 320
ROWS_COUNTED = 3200


@dataclass
class Ledger:
    """Where the rows of some steps come from, read from their content."""

    steps: list[int] = field(default_factory=list)
    slices: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    tokens_by_slice: Counter[str] = field(default_factory=Counter)
    tokens_by_source: Counter[str] = field(default_factory=Counter)


class Haystack:
    """Finds a piece of a row in the stored documents."""

    def __init__(self, split: Any) -> None:
        self.split = split
        self.blobs = [np.ascontiguousarray(array) for array in split.arrays]
        self.raw = [blob.tobytes() for blob in self.blobs]
        self.order = [np.flatnonzero(split.shards == number) for number in range(len(self.blobs))]

    def places(self, piece: NDArray[Any], at_start: bool) -> int | None:
        """The document that holds `piece` (at its start, if asked), or None."""
        for number, blob in enumerate(self.blobs):
            if piece.size and int(piece.max()) > np.iinfo(blob.dtype).max:
                return None
            needle = piece.astype(blob.dtype).tobytes()
            position = self.raw[number].find(needle)
            tries = 0
            while position >= 0 and tries < 2000:
                tries += 1
                width = blob.dtype.itemsize
                if position % width == 0:
                    place = position // width
                    members = self.order[number]
                    index = int(np.searchsorted(self.split.starts[members], place, side="right")) - 1
                    document = int(members[index])
                    begin = int(self.split.starts[document])
                    inside = place + piece.size <= begin + int(self.split.lengths[document])
                    if inside and (not at_start or place == begin):
                        return document
                position = self.raw[number].find(needle, position + 1)
        return None


def haystack_of(subject: Subject, data: Any) -> Haystack:
    """The training documents, laid out for searching once."""
    found: Haystack | None = subject.extra.get("haystack")
    if found is None:
        found = subject.extra["haystack"] = Haystack(data.train)
    return found


def rows(subject: Subject) -> Iterator[Finding]:
    """Every piece of a row is a verbatim piece of one stored document, and begins where the document begins; nothing is lost in an epoch."""
    source = subject.need("source", "a batch source")
    data = subject.need("data", "token data")
    haystack = haystack_of(subject, data)
    ledger = Ledger()
    looked, wrong, where = 0, 0, ""
    whole = getattr(source, "packing", "concatenate") == "concatenate"
    for step in _spread(subject, source):
        batch = fed(subject).batch(step)
        bad_shift = torch.zeros(batch.inputs.shape[0], dtype=torch.bool)
        same = batch.targets[:, :-1] == batch.inputs[:, 1:]
        bad_shift |= ((batch.targets[:, :-1] != IGNORE) & ~same).any(dim=1)
        if bool(bad_shift.any()):
            row = int(bad_shift.nonzero()[0])
            yield Finding(
                "TARGET-SHIFT/rows-disagree",
                "stop",
                "rows",
                location=f"rows: step {step}, row {row}",
                numbers=numbers(
                    rows=len(bad_shift),
                    wrong=int(bad_shift.sum()),
                    share=float(bad_shift.float().mean()),
                    offset=1,
                ),
            )
            return
        for row in range(batch.inputs.shape[0]):
            if looked >= ROWS_LOOKED_AT:
                break
            looked += 1
            problem = _explain(haystack, ledger, batch, row, step, data, whole)
            if problem:
                wrong += 1
                where = where or f"step {step}, row {row}, position {problem[1]}"
        if looked >= ROWS_LOOKED_AT:
            break
    if wrong:
        yield Finding(
            "DATA-ORDER/rows-not-in-data",
            "stop",
            "rows",
            location=f"rows: {where}",
            numbers=numbers(rows=looked, wrong=wrong, share=wrong / looked),
        )
    subject.extra["ledger"] = ledger
    if not wrong:
        yield from _nothing_lost(subject, source, data)


def _spread(subject: Subject, source: Any) -> list[int]:
    """Steps at the start, in the middle, and about the edge of the first epoch."""
    edge = epoch_steps(source)
    planned = subject.extra.get("planned_steps") or 2 * edge
    wanted = {*range(6), max(0, edge - 1), edge, edge + 1, max(0, planned - 1)}
    wanted |= {round(edge * part / 24) for part in range(24)}
    total = getattr(source, "total_steps", None)
    return sorted(step for step in wanted if total is None or step < max(total, 1))


def _explain(
    haystack: Haystack, ledger: Ledger, batch: Batch, row: int, step: int, data: Any, whole: bool = True
) -> tuple[str, int] | None:
    """Cut a row at its end tokens and find each piece; None where all of it is accounted for."""
    ids = batch.inputs[row].numpy()
    last = int(batch.targets[row, -1])
    following = last != IGNORE
    real = batch.document_ids[row].numpy() >= 0
    ids = ids[real] if not bool(real.all()) else ids
    if following and bool(real.all()):
        ids = np.append(ids, last)
    numbers_in_row = batch.document_ids[row].numpy()
    ends = {int(i) + 1 for i in np.flatnonzero(ids == data.eos_id) if int(i) + 1 < len(ids)}
    if not whole:
        # A chunk of a long document ends without an end token; only the document numbers say so.
        known = numbers_in_row[real] if not bool(real.all()) else numbers_in_row
        ends |= {int(i) + 1 for i in np.flatnonzero(known[1:] != known[:-1])}
    cuts = [0, *sorted(ends), len(ids)]
    first = ""
    for index, (start, stop) in enumerate(zip(cuts, cuts[1:], strict=False)):
        if stop - start < 1:
            continue
        # The first piece of a row may go on from the row before; every later one must be a document's beginning.
        document = haystack.places(ids[start:stop], at_start=whole and index > 0)
        if document is None:
            return "missing", start
        expected = numbers_in_row[min(start, len(numbers_in_row) - 1)]
        if index and start < len(numbers_in_row) and expected == numbers_in_row[start - 1]:
            return "document ids", start
        name, origin = haystack.split.slice_of(document), haystack.split.source_of(document)
        ledger.tokens_by_slice[name] += stop - start
        ledger.tokens_by_source[origin] += stop - start
        first = first or origin
    ledger.steps.append(step)
    ledger.sources.append(first)
    return None


def _nothing_lost(subject: Subject, source: Any, data: Any) -> Iterator[Finding]:
    """Counted over one epoch of a small corpus: each stored token is a target once, and only once."""
    if (
        subject.declared.shares
        or getattr(source, "packing", "concatenate") != "concatenate"
        or getattr(source, "total_rows", 1 << 60) > ROWS_COUNTED
    ):
        return
    loader = fed(subject)
    counted = np.zeros(data.n_tokens, dtype=np.int64)
    left = int(source.total_rows)
    for step in range(loader.edge):
        targets = loader.batch(step).targets
        targets = targets[: min(left, targets.shape[0])]
        left -= targets.shape[0]
        active = targets[targets != IGNORE]
        counted += np.bincount(active.numpy(), minlength=data.n_tokens)
    stored = np.zeros(data.n_tokens, dtype=np.int64)
    for array in data.train.arrays:
        stored += np.bincount(np.asarray(array), minlength=data.n_tokens)
    gap = counted - stored
    lost, extra = int(-gap[gap < 0].sum()), int(gap[gap > 0].sum())
    groups = len(getattr(source, "groups", [0]))
    if lost > groups or extra:
        yield Finding(
            "DATA-ORDER/epoch-incomplete",
            "stop",
            "rows",
            location="rows: one epoch",
            numbers=numbers(tokens=int(stored.sum()), targets=int(counted.sum()), lost=lost, extra=extra),
        )


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
            if _explain(haystack, ledger, batch, row, step, data, whole) is None:
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
