"""T4: what rows really hold, read from their content and found again in the stored documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from umsicht.findings import Finding
from umsicht.guard.probes.loader import epoch_steps, fed
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
    kinds: Counter[str] = Counter()
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
            problem = explain(haystack, ledger, batch, row, step, data, whole)
            if problem:
                wrong += 1
                kinds[problem[0]] += 1
                where = where or f"step {step}, row {row}, position {problem[1]}"
        if looked >= ROWS_LOOKED_AT:
            break
    if wrong:
        # Text that is all there and only numbered wrongly is another fault than text that is not.
        name = "DATA-ORDER/rows-not-in-data" if kinds["missing"] else "LEAK-DOC/document-ids"
        yield Finding(
            name,
            "stop",
            "rows",
            location=f"rows: {where}",
            numbers=numbers(
                rows=looked, wrong=wrong, share=wrong / looked, active=looked * batch.inputs.shape[1]
            ),
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


def explain(
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
