"""The last map stage: every document of a partition goes to training, validation or the drops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from umsicht.corpus.document import DROPPED_SCHEMA, SCHEMA, write_table
from umsicht.corpus.index import drops_of, open_rows
from umsicht.corpus.ledger import Ledger
from umsicht.corpus.split import is_chosen


@dataclass(frozen=True)
class FinishTask:
    """One partition and everything that was decided about its documents."""

    part: int
    key: str
    slices: tuple[str, ...]
    table: str
    index: str
    exact: tuple[str, ...]
    chosen: str
    output: str


def save_chosen(chosen: Mapping[str, npt.NDArray[np.uint64]], path: Path) -> None:
    """Keep the validation choice of all slices for the workers."""
    pairs = [pairs for pairs in chosen.values() if len(pairs)]
    np.save(path, np.concatenate(pairs) if pairs else np.empty((0, 2), np.uint64))


def finish(task: FinishTask) -> dict[str, Any]:
    """Write the partition's training, validation and dropped documents; return counts by source and slice."""
    table = pq.read_table(task.table)
    rows = open_rows(Path(task.index))
    exact = drops_of([Path(name) for name in task.exact], task.part)
    gone = np.zeros(len(rows), bool)
    gone[exact["row"]] = True
    validation = is_chosen(rows, task.slices, {"": np.load(task.chosen)}) & ~gone
    train = ~gone & ~validation
    folder = Path(task.output)
    ledger = Ledger()
    _count(ledger, "exact", table, ~gone)
    _count(ledger, "train", table, train)
    written = {
        "train": _write(table, train, SCHEMA, folder / f"{task.key}.train.parquet"),
        "val": _write(table, validation, SCHEMA, folder / f"{task.key}.val.parquet"),
        "dropped": _write(
            _with_reason(table, gone, "exact", "duplicate"),
            None,
            DROPPED_SCHEMA,
            folder / f"{task.key}.dropped.parquet",
        ),
    }
    slices: dict[str, dict[str, list[int]]] = {}
    for split, mask in (("train", train), ("val", validation)):
        for number in np.unique(rows["slice"][mask]):
            inside = mask & (rows["slice"] == number)
            entry = slices.setdefault(task.slices[number], {})
            entry[split] = [int(inside.sum()), int(rows["bytes"][inside].sum())]
    return {"files": written, "ledger": ledger.plain(), "slices": slices}


def _count(ledger: Ledger, stage: str, table: pa.Table, mask: npt.NDArray[np.bool_]) -> None:
    left = table.select(["source", "bytes"]).filter(pa.array(mask))
    for row in left.group_by("source").aggregate([("bytes", "count"), ("bytes", "sum")]).to_pylist():
        ledger.add(row["source"], stage, row["bytes_count"], row["bytes_sum"] or 0)


def _with_reason(table: pa.Table, mask: npt.NDArray[np.bool_], stage: str, reason: str) -> pa.Table:
    gone = table.filter(pa.array(mask))
    n = gone.num_rows
    detail = pa.array([f"same text as {name}" for name in gone.column("id").to_pylist()], pa.string())
    return (
        gone.append_column("stage", pa.array([stage] * n, pa.string()))
        .append_column("reason", pa.array([reason] * n, pa.string()))
        .append_column("detail", detail)
    )


def _write(table: pa.Table, mask: npt.NDArray[np.bool_] | None, schema: pa.Schema, path: Path) -> str:
    kept = table if mask is None else table.filter(pa.array(mask))
    if not kept.num_rows:
        return ""
    write_table(kept.cast(schema), path)
    return path.name
