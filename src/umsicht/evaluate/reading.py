"""The reading log: which outputs a person has read, and what they noted. It needs no model and no torch."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from umsicht.findings import Finding
from umsicht.record.manifest import now
from umsicht.record.run import Run, append_jsonl, read_jsonl

SCHEMA = 1


@dataclass(frozen=True)
class Batch:
    """The outputs of one evaluation; `read` holds the ids that a person has seen."""

    step: int
    rows: tuple[dict[str, Any], ...]
    read: frozenset[str]

    @property
    def is_read(self) -> bool:
        """Somebody has read at least one output of it."""
        return bool(self.read)

    @property
    def unread(self) -> int:
        return len(self.rows) - len(self.read)


def log_path(run: Run) -> Path:
    """`reading.jsonl`: one line a note."""
    return run.folder / "reading.jsonl"


def notes(run: Run) -> list[dict[str, Any]]:
    """Every note, oldest first."""
    return read_jsonl(log_path(run))


def batches(run: Run) -> list[Batch]:
    """The outputs of each evaluation, oldest first."""
    by_step: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in run.samples():
        by_step[int(row["step"])].append(row)
    seen: dict[int, set[str]] = defaultdict(set)
    for note in notes(run):
        seen[int(note["step"])] |= set(note.get("outputs", ()))
    return [
        Batch(step, tuple(rows), frozenset(seen[step] & {str(r["id"]) for r in rows}))
        for step, rows in sorted(by_step.items())
    ]


def choose(batch: Batch, limit: int | None, seed: int) -> list[dict[str, Any]]:
    """What is shown of a batch: everything, or `limit` unread outputs drawn at random with `seed`; never the nicest."""
    rows = [row for row in batch.rows if str(row["id"]) not in batch.read] or list(batch.rows)
    if limit is None or limit >= len(rows):
        return rows
    picked = sorted(random.Random(f"{seed}.{batch.step}").sample(range(len(rows)), limit))
    return [rows[i] for i in picked]


def note(run: Run, step: int, outputs: Sequence[str], text: str) -> None:
    """Record that a person read these outputs, and what they thought."""
    append_jsonl(
        log_path(run),
        [{"schema": SCHEMA, "time": now(), "step": step, "outputs": list(outputs), "note": text}],
    )


def reminder(run: Run, after: int) -> list[Finding]:
    """A finding where the last `after` evaluations or more went by without anybody reading an output."""
    unread = 0
    since = 0
    for batch in reversed(batches(run)):
        if batch.is_read:
            break
        unread, since = unread + 1, batch.step
    if unread < after:
        return []
    return [Finding("SAMPLE/unread", "note", "evaluate", "", {"evaluations": unread, "step": since})]
