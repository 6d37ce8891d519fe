"""The last map stage: everything that was decided about a partition's documents is carried out, and every one of them ends up in training, in
validation, or among the drops with a reason."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umsicht.corpus.carry import Carry, Names
from umsicht.corpus.document import read_columns, write_table
from umsicht.corpus.index import drops_of, hex_id, open_rows
from umsicht.corpus.kernels.spans import spans_of
from umsicht.corpus.lines import is_code, line_hashes
from umsicht.corpus.near.tasks import VALIDATION
from umsicht.corpus.protect import Fingerprint, scan

EXAMPLES = 20
HISTOGRAM = tuple(2**k for k in range(5, 24))
"""Upper edges, in bytes, of the histogram of document lengths."""


@dataclass(frozen=True)
class FinishTask:
    """One partition and everything that was decided; paths are empty where a stage is switched off."""

    part: int
    key: str
    slices: tuple[str, ...]
    sources: tuple[int, ...]
    table: str
    state: str
    names: Names
    exact: tuple[str, ...]
    near: str
    boilerplate: tuple[str, ...]
    line_words: int
    spans: str
    paragraphs: str
    protected: str
    works: tuple[str, ...]
    min_document_bytes: int
    output: str


def finish(task: FinishTask) -> dict[str, Any]:
    """Carry out all decisions on one partition; return counts by source and slice, and examples."""
    rows = open_rows(Path(task.names.indexes[task.part]))
    offset = task.names.offsets[task.part]
    state = np.load(task.state, mmap_mode="r")[offset : offset + len(rows)]
    carry = Carry(read_columns(task.table), rows, state == VALIDATION, task.min_document_bytes)
    _exact(task, carry)
    carry.count("exact")
    _near(task, carry, offset)
    carry.count("near")
    boilerplate = _lines(task, carry)
    carry.count("lines")
    _paragraphs(task, carry)
    carry.count("paragraphs")
    protected = _protect(task, carry)
    carry.count("protect")
    train = carry.alive & ~carry.validation
    carry.count("train", train)
    return {
        "files": {
            "train": _write(task, carry, train, "train"),
            "val": _write(task, carry, carry.alive & carry.validation, "val"),
            "dropped": _write_dropped(task, carry),
        },
        "ledger": carry.ledger.plain(),
        "slices": _slices(task, carry, train),
        "lengths": np.histogram(carry.sizes()[train], (0, *HISTOGRAM, np.inf))[0].tolist(),
        "reasons": [
            [stage, reason, n]
            for (stage, reason), n in sorted(Counter(r[1:3] for r in carry.reasons).items())
        ],
        "boilerplate": boilerplate,
        "protected": protected,
    }


def _exact(task: FinishTask, carry: Carry) -> None:
    for row in drops_of([Path(name) for name in task.exact], task.part)["row"].tolist():
        name = hex_id(int(carry.rows["hi"][row]), int(carry.rows["lo"][row]))
        carry.drop(row, "exact", "duplicate", f"same text as {name}")


def _near(task: FinishTask, carry: Carry, offset: int) -> None:
    if not task.near:
        return
    drops = open_rows(Path(task.near))
    first, last = np.searchsorted(drops["later"], [offset, offset + len(carry.rows)])
    mine = drops[first:last]
    for drop, kept in zip(mine, task.names.ids_of(mine["earlier"]), strict=True):
        reason = "near-duplicate" if drop["jaccard"] >= drop["score"] else "contained"
        detail = f"of {kept}; jaccard {drop['jaccard']:.2f}, score {drop['score']:.2f}"
        carry.drop(int(drop["later"]) - offset, "near", reason, detail)


def _lines(task: FinishTask, carry: Carry) -> list[dict[str, Any]]:
    known = [open_rows(Path(name)) for name in task.boilerplate]
    if not sum(map(len, known)):
        return []
    table = np.concatenate(known)
    chosen = np.flatnonzero(carry.alive & ~is_code(carry.table))
    text, lines, hashes = line_hashes(carry.spans.take(chosen), task.line_words)
    row = chosen[text]
    marks = _by_source(hashes, np.array(task.sources, np.uint64)[carry.rows["source"][row]])
    gone = np.isin(marks, _by_source(table["hash"], table["source"].astype(np.uint64)))
    lines, row, marks = lines.take(gone), row[gone], marks[gone]
    starts = carry.spans.starts[row]
    names = carry.table.column("source")
    shown: dict[int, dict[str, Any]] = {}
    for i, mark in enumerate(marks.tolist()):
        entry = shown.setdefault(mark, {"times": 0})
        entry["times"] += 1
        if "line" not in entry:
            entry["line"] = lines.text(i)[:300]
            entry["source"] = names[int(row[i])].as_py()
    spots = zip(row.tolist(), (lines.starts - starts).tolist(), (lines.ends - starts).tolist(), strict=True)
    carry.cut(spots, "lines")
    return sorted(shown.values(), key=lambda entry: (-entry["times"], entry["line"]))[:EXAMPLES]


def _by_source(hashes: npt.NDArray[np.uint64], source: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """One key for a line in a source."""
    return hashes ^ (source * np.uint64(0x9E3779B97F4A7C15))


def _paragraphs(task: FinishTask, carry: Carry) -> None:
    if not task.paragraphs:
        return
    drops = drops_of([Path(task.paragraphs)], task.part)
    places = np.load(task.spans)[drops["row"]]
    spots = []
    offsets = np.array(task.names.offsets, np.int64)
    kept_ids = task.names.ids_of(offsets[drops["kept_part"]] + drops["kept_row"])
    for drop, place, kept in zip(drops, places, kept_ids, strict=True):
        row, start, end = int(place["row"]), int(place["start"]), int(place["end"])
        if not carry.alive[row]:
            continue
        first = int(carry.spans.starts[row])
        piece = carry.spans.buffer[first + start : first + end].tobytes().decode("utf-8", "replace")
        carry.fragments.append((row, piece, f"score {drop['score']:.2f}; stays in {kept}"))
        spots.append((row, start, end))
    carry.cut(spots, "paragraphs")


def _protect(task: FinishTask, carry: Carry) -> dict[str, Any]:
    if not task.protected:
        return {}
    known = Fingerprint.load(Path(task.protected))
    chosen = np.flatnonzero(carry.alive)
    hits = scan(spans_of(carry.current(carry.alive).column("text")), known)
    documents: dict[str, set[int]] = {}
    items: dict[str, set[str]] = {}
    examples: list[dict[str, Any]] = []
    for hit in hits:
        row = int(chosen[hit.text])
        documents.setdefault(hit.set, set()).add(row)
        items.setdefault(hit.set, set()).add(hit.item)
        if len(examples) < EXAMPLES:
            examples.append({"detail": hit.detail, "id": carry.table.column("id")[row].as_py()})
        reason = "protected-work" if hit.set in task.works else "evaluation-set"
        carry.drop(row, "protect", reason, hit.detail)
    return {
        "documents": {name: len(rows) for name, rows in documents.items()},
        "items": {name: sorted(found) for name, found in items.items()},
        "examples": examples,
    }


def _write(task: FinishTask, carry: Carry, mask: npt.NDArray[np.bool_], kind: str) -> str:
    if not mask.any():
        return ""
    name = f"{task.key}.{kind}.parquet"
    write_table(carry.current(mask), Path(task.output) / name)
    return name


def _write_dropped(task: FinishTask, carry: Carry) -> str:
    table = carry.dropped()
    if not table.num_rows:
        return ""
    name = f"{task.key}.dropped.parquet"
    write_table(table, Path(task.output) / name)
    return name


def _slices(task: FinishTask, carry: Carry, train: npt.NDArray[np.bool_]) -> dict[str, dict[str, list[int]]]:
    slices: dict[str, dict[str, list[int]]] = {}
    sizes = carry.sizes()
    for split, mask in (("train", train), ("val", carry.alive & carry.validation)):
        for number in np.unique(carry.rows["slice"][mask]):
            inside = mask & (carry.rows["slice"] == number)
            slices.setdefault(task.slices[number], {})[split] = [int(inside.sum()), int(sizes[inside].sum())]
    return slices
