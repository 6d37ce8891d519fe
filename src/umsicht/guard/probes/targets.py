"""T6 on the real loader: every target of thousands of rows, on the path that feeds the trainer, against the row it stands in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from umsicht.findings import Finding
from umsicht.guard.probes.loader import fed
from umsicht.guard.subject import Subject, numbers
from umsicht.tokens.batch import IGNORE, Batch

STAGE = "active-targets"


@dataclass
class Tally:
    """What is wrong with targets, by kind, and where it was first seen."""

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)
    positions: int = 0
    active: int = 0
    rows: int = 0
    open_ends: int = 0

    def add(self, kind: str, mask: torch.Tensor, step: int, offset: int = 0) -> None:
        """Count the positions of `mask`."""
        found = int(mask.sum())
        if found:
            self.counts[kind] += found
            row, position = (int(value) for value in mask.nonzero()[0])
            self.first.setdefault(kind, f"step {step}, row {row}, position {position + offset}")


def loader_targets(subject: Subject) -> Iterator[Finding]:
    """Pads inactive, every other position active and followed by its own successor, end tokens like all others, all along the planned run."""
    loader = fed(subject)
    source, tally = loader.source, Tally()
    eos = subject.extra.get("eos_id")
    whole = getattr(source, "packing", "concatenate") == "concatenate"
    # In packed rows every token is a target unless the recipe says otherwise; padded rows keep documents apart.
    everything = subject.declared.loss_on == "all" or (subject.declared.loss_on is None and not whole)
    steps = loader.steps()
    for index, step in enumerate(steps):
        batch = loader.batch(step)
        if index % 8 == 0:
            differs = _same_on_both_paths(source, batch, step)
            if differs is not None:
                yield differs
                return
        _look(tally, batch, step, eos, whole=whole, everything=everything)
    yield from _judge(tally, source, steps, whole)


def _same_on_both_paths(source: Any, batch: Batch, step: int) -> Finding | None:
    """Micro-batches put together are the batch of the step."""
    other = source.batch(step)
    for name in ("inputs", "targets", "rows", "document_ids"):
        if not torch.equal(getattr(batch, name), getattr(other, name)):
            return Finding(
                "DATA-ORDER/micro-batches",
                "stop",
                "data-order",
                location=f"data order: step {step}",
                numbers=numbers(step=step, field=name),
            )
    return None


def _look(tally: Tally, batch: Batch, step: int, eos: int | None, *, whole: bool, everything: bool) -> None:
    ids, targets, documents = batch.inputs, batch.targets, batch.document_ids
    active, real = targets != IGNORE, documents >= 0
    tally.rows += ids.shape[0]
    tally.positions += ids.numel()
    tally.active += int(active.sum())
    tally.add("pad", active & ~real, step)
    tally.add("shift", active[:, :-1] & real[:, 1:] & (targets[:, :-1] != ids[:, 1:]), step)
    same = documents[:, 1:] == documents[:, :-1]
    follows = real[:, 1:] & real[:, :-1]
    tally.add("into-pad", active[:, :-1] & real[:, :-1] & ~real[:, 1:], step)
    if not whole:
        tally.add("across", active[:, :-1] & follows & ~same, step)
        follows = follows & same
    if everything:
        lost = follows & ~active[:, :-1]
        tally.add("end" if eos is not None and _all(ids[:, 1:][lost], eos) else "lost", lost, step)
        tally.open_ends += int((real.all(dim=1) & ~active[:, -1]).sum())
    if eos is not None and whole:
        ends = ids[:, :-1] == eos
        tally.add("documents", real[:, 1:] & real[:, :-1] & (ends == same), step, 1)


def _all(values: torch.Tensor, value: int) -> bool:
    return bool(values.numel()) and bool((values == value).all())


def _judge(tally: Tally, source: Any, steps: list[int], whole: bool) -> Iterator[Finding]:
    counts = tally.counts
    if counts["end"] and counts["lost"]:
        counts["lost"] += counts.pop("end")
    for kind, name, place in (
        ("pad", "TARGET-MASK/pad-active", "rows"),
        ("into-pad", "TARGET-MASK/pad-active", "rows"),
        ("shift", "TARGET-SHIFT/rows-disagree", "rows"),
        ("across", "TARGET-MASK/ignored-active", "rows"),
        ("lost", "TARGET-MASK/lost", "targets"),
        ("end", "TARGET-MASK/eos-masked", "targets"),
        ("documents", "LEAK-DOC/document-ids", "rows"),
    ):
        if counts[kind]:
            yield _finding(tally, kind, name, place)
            return
    # The very last token of a pass has no successor; with several groups each has such a row.
    passes = 1 + int(source.epoch(max(steps) + 1))
    allowed = passes * len(getattr(source, "groups", (0,)))
    if whole and tally.open_ends > allowed:
        tally.first["edge"] = "last position"
        counts["edge"] = tally.open_ends
        yield _finding(tally, "edge", "TARGET-MASK/lost", "targets")


def _finding(tally: Tally, kind: str, name: str, place: str) -> Finding:
    count = tally.counts[kind]
    stage = "rows" if name.startswith(("TARGET-SHIFT", "LEAK-DOC")) else STAGE
    return Finding(
        name,
        "stop",
        stage,
        location=f"{place}: {tally.first[kind]}",
        numbers=numbers(
            positions=count if "mask" in name.lower() and "lost" not in name else tally.positions,
            lost=count,
            share=count / max(1, tally.positions),
            share_of_weight=count / max(1, tally.active),
            active=tally.active,
            expected=tally.active - count if "active" in name else tally.active + count,
            rows=tally.rows,
            wrong=count,
            offset=1,
            ends=count,
            trained=0,
            eos=-1,
        ),
    )
