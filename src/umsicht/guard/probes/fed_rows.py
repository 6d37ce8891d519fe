"""T3 and T15 on anybody's batches: begin and end tokens as declared, rows that come again, batches in the order of their source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import torch

from umsicht.findings import Finding
from umsicht.guard.adapt_batch import Example
from umsicht.guard.probes.documents import document_starts
from umsicht.guard.subject import Subject, numbers, token_id


def repeated_rows(subject: Subject) -> Iterator[Finding]:
    """Rows of the first batches that are there twice: workers with one seed, a stream handed to each worker, a loader that begins again."""
    subject.need_example()
    if subject.declared.epochs is not None and subject.declared.epochs > 1 and len(subject.examples) < 4:
        return
    seen: Counter[bytes] = Counter()
    where = ""
    within = across = 0
    for index, example in enumerate(subject.examples):
        own: set[bytes] = set()
        for row in range(example.ids.shape[0]):
            ids = example.ids[row][example.real[row]].cpu().contiguous()
            if ids.numel() < 8 or int(torch.unique(ids).numel()) < 3:
                continue
            key = ids.numpy().tobytes()
            if key in own:
                within += 1
            elif seen[key]:
                across += 1
            if seen[key] and not where:
                where = f"batch {index}, row {row}"
            own.add(key)
            seen[key] += 1
    rows = sum(seen.values())
    repeats = within + across
    # A data set smaller than what is looked at must come round again; then every row has come before any comes twice.
    if repeats and rows and not _comes_round(subject.examples, len(seen)):
        yield Finding(
            "DATA-ORDER/repeats",
            "stop" if repeats > 0.02 * rows else "warn",
            "data-order",
            location=f"data order: {where}",
            numbers=numbers(repeats=repeats, rows=rows, share=repeats / rows),
        )


def _comes_round(examples: list[Example], distinct: int) -> bool:
    """True where repeats are those of whole passes: no row comes a second time before all others came once."""
    seen: Counter[bytes] = Counter()
    for example in examples:
        for row in range(example.ids.shape[0]):
            key = example.ids[row][example.real[row]].cpu().contiguous().numpy().tobytes()
            if seen[key] and len(seen) < distinct:
                return False
            seen[key] += 1
    return True


def boundary_tokens(subject: Subject) -> Iterator[Finding]:
    """Begin and end tokens in rows: doubled ones under any reading; missing or uncalled-for ones where something was declared."""
    subject.need_example()
    if subject.tokenizer is None:
        return
    bos, eos = token_id(subject.tokenizer, "bos"), token_id(subject.tokenizer, "eos")
    pad = token_id(subject.tokenizer, "pad")
    if bos is not None and bos not in (eos, pad):
        yield from _begin(subject, bos)
    if eos is not None:
        yield from _end(subject, eos, pad)


def _begin(subject: Subject, bos: int) -> Iterator[Finding]:
    doubled = starts = missing = 0
    for example in subject.examples:
        real = example.real
        same = (example.ids[:, 1:] == bos) & (example.ids[:, :-1] == bos) & real[:, 1:] & real[:, :-1]
        doubled += int(same.sum())
        begins = document_starts(example, None)
        first = real.to(torch.int64).argmax(dim=1)
        begins[:, 0] = False
        begins[torch.arange(len(first)), first] = True
        starts += int((begins & real).sum())
        missing += int((begins & real & (example.ids != bos)).sum())
    counts = numbers(documents=starts, doubled=doubled, missing=missing, bos=bos)
    if doubled:
        yield Finding("BOUNDARY-TOKEN/bos-doubled", "stop", "boundaries", location="rows", numbers=counts)
    elif subject.declared.bos and missing:
        yield Finding("BOUNDARY-TOKEN/bos-missing", "stop", "boundaries", location="rows", numbers=counts)
    elif subject.declared.bos is False and missing < starts:
        yield Finding("BOUNDARY-TOKEN/bos-uncalled", "stop", "boundaries", location="rows", numbers=counts)


def _end(subject: Subject, eos: int, pad: int | None) -> Iterator[Finding]:
    doubled = seen = rows = 0
    for example in subject.examples:
        real = example.real
        if pad == eos and example.attention_mask is None:
            # Padding cannot be told from an end here.
            return
        ends = (example.ids == eos) & real
        doubled += int((ends[:, 1:] & ends[:, :-1]).sum())
        seen += int(ends.sum())
        rows += example.ids.shape[0]
    if doubled:
        yield Finding(
            "BOUNDARY-TOKEN/eos-doubled",
            "stop",
            "boundaries",
            location="rows",
            numbers=numbers(documents=seen - doubled, doubled=doubled),
        )
    elif subject.declared.eos and not seen and rows >= 4:
        yield Finding(
            "BOUNDARY-TOKEN/eos-missing",
            "stop",
            "boundaries",
            location="rows",
            numbers=numbers(documents=rows, missing=rows, eos=eos),
        )
