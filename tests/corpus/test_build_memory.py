"""Memory of the stages that look across partitions: their number must not count, because a corpus three times as large has three times as many files,
and pages that a search in a mapped file has touched stay resident for as long as anything of it is held.
"""

from __future__ import annotations

import tracemalloc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from umsicht.corpus import lines
from umsicht.corpus.document import write_table, write_working
from umsicht.corpus.engine import Serial
from umsicht.corpus.exact import BYTES_A_ROW, exact_tasks, find_exact
from umsicht.corpus.independence import RunsTask, overlap_of, validation_runs
from umsicht.corpus.index import ROW, open_rows, save_array
from umsicht.corpus.kernels.scan import build_table
from umsicht.corpus.lines import COUNT, merge_lines, merge_tasks
from umsicht.corpus.listing import save_listing
from umsicht.corpus.near import NearJob, find_near, tasks
from umsicht.corpus.near.run import BYTES_A_KEY
from umsicht.corpus.near.tasks import STAYS, BucketTask, SketchTask, SpanFile, pair_bucket, sketch_part
from umsicht.corpus.work import Workspace

FILES = 12


class Mapped:
    """How many files were mapped at once at most, by a function that maps one."""

    def __init__(self, opens: Callable[..., Any]) -> None:
        self.opens, self.most = opens, 0
        self.found: list[weakref.ref[Any]] = []

    def __call__(self, *arguments: Any) -> Any:
        found = self.opens(*arguments)
        if isinstance(found, np.memmap):
            self.found.append(weakref.ref(found))
        self.most = max(self.most, sum(one() is not None for one in self.found))
        return found


def test_lines_of_many_partitions_are_merged_with_few_files_mapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    files = []
    for number in range(FILES):
        table = np.zeros(500, COUNT)
        table["hash"] = np.sort(rng.integers(0, 2**64 - 1, 500, np.uint64))
        table["documents"] = 1
        files.append(str(tmp_path / f"{number}.npy"))
        np.save(files[-1], table)
    mapped = Mapped(open_rows)
    monkeypatch.setattr(lines, "open_rows", mapped)
    parts = merge_tasks(save_listing(tmp_path / "files.json", files), 500 * FILES, [2], 400 * 600, tmp_path)
    assert len(parts) == 10
    assert sum(merge_lines(part)["lines"] for part in parts) == 0
    assert 1 <= mapped.most <= 2


def test_near_duplicates_in_many_partitions_are_searched_with_few_files_mapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [" ".join(f"w{(7 * k + 3 * j) % 101}" for j in range(40)) for k in range(300)]
    files = []
    for number in range(FILES):
        path = tmp_path / f"{number}.arrow"
        write_working(pa.table({"text": pa.array(texts, pa.large_string())}), path)
        files.append(SpanFile(str(path)))
    mapped = Mapped(tasks._mapped)
    monkeypatch.setattr(tasks, "_mapped", mapped)
    count = len(texts)
    job = NearJob(
        "near",
        files,
        [count] * FILES,
        save_array(tmp_path / "state.npy", np.full(count * FILES, STAYS, np.uint8)),
        memory_bytes=1_000_000,
    )
    found = find_near(job, Workspace(tmp_path / "work", "x", "0" * 64), Serial())
    assert len(found.drops) >= count * (FILES - 1)
    assert 1 <= mapped.most <= 4


def test_runs_of_validation_are_those_of_all_its_files(tmp_path: Path) -> None:
    texts = [" ".join(f"word{k}x{j}" for j in range(20)) for k in range(6)] + ["too short to have any"]
    one, two = tmp_path / "a.parquet", tmp_path / "b.parquet"
    for path, mine in ((one, texts[:2]), (two, texts[2:])):
        write_table(pa.table({"text": pa.array(mine, pa.large_string())}), path)
    known = validation_runs(RunsTask(save_listing(tmp_path / "files.json", [one, two]), str(tmp_path)))
    assert known["documents"] == 7
    assert np.bincount(np.load(tmp_path / "owners.npy"), minlength=7).tolist() == [8] * 6 + [0]
    assert overlap_of(tmp_path, 7, []).tolist() == [0.0] * 7
    assert overlap_of(tmp_path, 7, [str(tmp_path / "hashes.npy")]).tolist() == [1.0] * 6 + [0.0]


@pytest.mark.parametrize("count", [0, 1, 12, 13, 1_000, 3_072])
def test_a_table_of_hashes_keeps_room_and_wastes_little(count: int) -> None:
    table = build_table(np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    assert np.count_nonzero(table) == count
    assert len(table) > count
    assert len(table) <= max(16, 8 * count // 3 + 1)


def test_passes_over_documents_stay_within_their_memory(tmp_path: Path) -> None:
    documents, limit = 60_000, 2_000_000
    rng = np.random.default_rng(0)
    indexes = []
    for number in range(FILES):
        rows = np.zeros(documents // FILES, ROW)
        rows["hi"] = rng.integers(0, 2**64 - 1, len(rows), np.uint64)
        indexes.append(tmp_path / f"{number}.npy")
        np.save(indexes[-1], rows)
    parts = exact_tasks(save_listing(tmp_path / "indexes.json", indexes), documents, limit, tmp_path)
    assert len(parts) == documents * BYTES_A_ROW // limit
    tracemalloc.start()
    assert sum(find_exact(part)["drops"] for part in parts) == 0
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < limit


def test_a_pass_over_keys_that_are_all_shared_takes_what_was_reckoned(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    count, bits = 2_000, 12
    sketch = np.sort(rng.integers(0, 2**63, (count, 32), np.uint64), axis=1)
    parts = tuple(str(tmp_path / f"{number}") for number in range(2))
    for part in parts:
        np.save(f"{part}.sketch.npy", sketch)
        np.save(f"{part}.size.npy", np.full(count, 40, np.uint32))
        texts = SpanFile("", sketches=(f"{part}.sketch.npy", f"{part}.size.npy"))
        keys = sketch_part(SketchTask(texts, f"{part}-out", 5, 1, bits))["keys"]
    np.save(tmp_path / "state.npy", np.full(2 * count, STAYS, np.uint8))
    outputs = tuple(f"{part}-out" for part in parts)
    bucket = BucketTask(
        0,
        (1 << 52) - 1,
        bits,
        save_listing(tmp_path / "parts.json", outputs, [count, count]),
        str(tmp_path / "state.npy"),
        "",
        str(tmp_path / "pairs.npy"),
    )
    tracemalloc.start()
    assert pair_bucket(bucket)["pairs"] >= count
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * keys * BYTES_A_KEY
