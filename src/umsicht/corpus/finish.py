"""The last map stage: everything that was decided about a partition's documents is carried out, and every one of them ends up in training, in
validation, or among the drops with a reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from umsicht.corpus.carry import Carry
from umsicht.corpus.context import Context, Partitions
from umsicht.corpus.document import read_columns, write_table
from umsicht.corpus.independence import save_training
from umsicht.corpus.index import drops_of, hex_id, ids_of, open_rows
from umsicht.corpus.kernels.spans import Spans, spans_of
from umsicht.corpus.listing import Listing, open_listing, save_listing
from umsicht.corpus.near.tasks import VALIDATION
from umsicht.corpus.pieces import lines_path, paragraphs_path
from umsicht.corpus.protect import Fingerprint, scan
from umsicht.words import t

EXAMPLES = 20
HISTOGRAM = tuple(2**k for k in range(5, 24))
"""Upper edges, in bytes, of the histogram of document lengths."""


@dataclass(frozen=True)
class Decisions:
    """Files of what the stages before have decided; empty where a stage is switched off."""

    exact: Sequence[str]
    near: str
    boilerplate: Sequence[str]
    paragraphs: str


def run(context: Context, partitions: Partitions, decisions: Decisions) -> list[dict[str, Any]]:
    """Results of `finish` for all partitions, whose files lie in the folder of the stage `write`."""
    tasks = _tasks(context, partitions, decisions)
    sizes = [part.bytes / 1e6 for part in partitions.parts]
    finished = context.run("write", finish, tasks, t("corpus.stage.write"), sizes)
    for result in finished:
        context.ledger.merge(result["ledger"])
    return finished


def _tasks(context: Context, partitions: Partitions, decisions: Decisions) -> list[FinishTask]:
    read, write = partitions.folder, context.work.stage("write")
    exact = save_listing(write / "exact.json", decisions.exact)
    boilerplate = save_listing(write / "boilerplate.json", decisions.boilerplate)
    return [
        FinishTask(
            number,
            part.key,
            part.slices,
            part.sources,
            str(part.table),
            str(context.state),
            partitions.listing,
            exact,
            decisions.near,
            boilerplate,
            str(lines_path(read, part.key)),
            str(paragraphs_path(read, part.key)),
            decisions.paragraphs,
            str(context.fingerprints) if context.protected.sets else "",
            context.protected.works,
            context.settings.min_document_bytes,
            str(write),
        )
        for number, part in enumerate(partitions.parts)
    ]


@dataclass(frozen=True)
class FinishTask:
    """One partition and everything that was decided; paths are empty where a stage is switched off."""

    part: int
    key: str
    slices: tuple[str, ...]
    sources: tuple[int, ...]
    table: str
    state: str
    indexes: str
    """List of the indexes of all partitions."""
    exact: str
    """List of the files of exact duplicates."""
    near: str
    boilerplate: str
    """List of the files of boilerplate lines."""
    lines: str
    """File of the partition's lines."""
    spans: str
    paragraphs: str
    protected: str
    works: tuple[str, ...]
    min_document_bytes: int
    output: str


def finish(task: FinishTask) -> dict[str, Any]:
    """Carry out all decisions on one partition; return counts by source and slice, and examples."""
    indexes = open_listing(task.indexes)
    rows = open_rows(Path(indexes.files[task.part]))
    offset = indexes.offsets[task.part]
    state = np.load(task.state, mmap_mode="r")[offset : offset + len(rows)]
    carry = Carry(read_columns(task.table), rows, state == VALIDATION, task.min_document_bytes)
    _exact(task, carry)
    carry.count("exact")
    _near(task, carry, indexes)
    carry.count("near")
    boilerplate = _lines(task, carry)
    carry.count("lines")
    _paragraphs(task, carry, indexes)
    carry.count("paragraphs")
    protected = _protect(task, carry)
    carry.count("protect")
    train = carry.alive & ~carry.validation
    carry.count("train", train)
    training = f"{task.key}.training.npz"
    save_training(Path(task.output) / training, train, carry.texts)
    return {
        "training": training,
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
    for row in drops_of(open_listing(task.exact).files, task.part)["row"].tolist():
        name = hex_id(int(carry.rows["hi"][row]), int(carry.rows["lo"][row]))
        carry.drop(row, "exact", "duplicate", f"same text as {name}")


def _near(task: FinishTask, carry: Carry, indexes: Listing) -> None:
    if not task.near:
        return
    offset = indexes.offsets[task.part]
    drops = open_rows(Path(task.near))
    first, last = np.searchsorted(drops["later"], [offset, offset + len(carry.rows)])
    mine = np.array(drops[first:last])
    kept = ids_of(indexes, mine["earlier"])
    for (later, _, score, jaccard), name in zip(mine.tolist(), kept, strict=True):
        reason = "near-duplicate" if jaccard >= score else "contained"
        carry.drop(later - offset, "near", reason, f"of {name}; jaccard {jaccard:.2f}, score {score:.2f}")


def _lines(task: FinishTask, carry: Carry) -> list[dict[str, Any]]:
    known = [open_rows(Path(name)) for name in open_listing(task.boilerplate).files]
    if not sum(map(len, known)):
        return []
    table = np.concatenate(known)
    found = open_rows(Path(task.lines))
    row = np.ascontiguousarray(found["row"])
    marks = _by_source(found["hash"], np.array(task.sources, np.uint64)[carry.rows["source"][row]])
    gone = carry.alive[row] & np.isin(marks, _by_source(table["hash"], table["source"].astype(np.uint64)))
    row, marks, start, end = row[gone], marks[gone], found["start"][gone], found["end"][gone]
    starts = carry.spans.starts[row]
    lines = Spans(carry.spans.buffer, starts + start, starts + end)
    names = carry.table.column("source")
    shown: dict[int, dict[str, Any]] = {}
    for i, mark in enumerate(marks.tolist()):
        entry = shown.setdefault(mark, {"times": 0})
        entry["times"] += 1
        if "line" not in entry:
            entry["line"] = lines.text(i)[:300]
            entry["source"] = names[int(row[i])].as_py()
    carry.cut(zip(row.tolist(), start.tolist(), end.tolist(), strict=True), "lines")
    return sorted(shown.values(), key=lambda entry: (-entry["times"], entry["line"]))[:EXAMPLES]


def _by_source(hashes: npt.NDArray[np.uint64], source: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """One key for a line in a source."""
    return hashes ^ (source * np.uint64(0x9E3779B97F4A7C15))


def _paragraphs(task: FinishTask, carry: Carry, indexes: Listing) -> None:
    if not task.paragraphs:
        return
    drops = drops_of([task.paragraphs], task.part)
    places = open_rows(Path(task.spans))[drops["row"]].tolist()
    spots = []
    offsets = np.array(indexes.offsets, np.int64)
    kept_ids = ids_of(indexes, offsets[drops["kept_part"]] + drops["kept_row"])
    for score, (row, start, end), kept in zip(drops["score"].tolist(), places, kept_ids, strict=True):
        if not carry.alive[row]:
            continue
        first = int(carry.spans.starts[row])
        piece = carry.spans.buffer[first + start : first + end].tobytes().decode("utf-8", "replace")
        carry.fragments.append((row, piece, f"score {score:.2f}; stays in {kept}"))
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
