"""A file that grows, tears, shrinks, is replaced; and the cache that must never answer for another file."""

from __future__ import annotations

import math
import random
import threading
from pathlib import Path

import numpy as np
import pytest
from tests.dashboard.records import lines, make_run, row

from umsicht.dashboard import sidecar
from umsicht.dashboard.curves import draw
from umsicht.dashboard.tail import Tail, Tails
from umsicht.record import read_metrics
from umsicht.record.columns import replaced_rows


def rows(n: int, start: int = 0, segment: int = 0) -> bytes:
    rng = random.Random(start)
    return lines(row(step, rng, segment=segment) for step in range(start, start + n))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "metrics.jsonl"


def write(path: Path, data: bytes, mode: str = "wb") -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open(mode) as file:
        file.write(data)


def test_appended_rows_are_read_without_reading_the_rest_again(path: Path) -> None:
    write(path, rows(50))
    tail = Tail(path)
    assert tail.columns().n == 50
    write(path, rows(7, 50), "ab")
    columns = tail.columns()
    assert columns.n == 57 and columns.step.tolist() == list(range(57)) and tail.restarts == 0
    assert columns.series["val/all/loss"].rows.tolist() == [0, 20, 40]


def test_a_torn_last_line_waits_for_its_newline(path: Path) -> None:
    whole = rows(10)
    write(path, whole[:-20])
    tail = Tail(path)
    assert tail.columns().n == 9
    write(path, whole[-20:], "ab")
    assert tail.columns().n == 10 and tail.columns().bad == 0


def test_lines_that_are_no_rows_are_counted_and_never_fatal(path: Path) -> None:
    write(
        path,
        rows(3) + b'not json\n[1,2]\n{"loss": 1}\n{"step": true}\n{"step": "NaN"}\n\xff\xfe\n\n' + rows(2, 3),
    )
    columns = Tail(path).columns()
    assert columns.n == 5 and columns.bad == 6


def test_non_finite_values_in_every_spelling(path: Path) -> None:
    write(
        path,
        b'{"step":1,"a":"NaN"}\n{"step":2,"a":NaN}\n{"step":3,"a":"Infinity"}\n{"step":4,"a":"-Infinity"}\n{"step":5,"a":"text"}\n{"step":6,"a":1}\n',
    )
    values = Tail(path).columns().series["a"].values
    assert (
        np.isnan(values[:2]).all()
        and values[2:4].tolist() == [math.inf, -math.inf]
        and values[4:].tolist() == [1.0]
    )


def test_a_truncated_file_is_read_again(path: Path) -> None:
    write(path, rows(30))
    tail = Tail(path)
    tail.columns()
    write(path, rows(4))
    assert tail.columns().n == 4 and tail.restarts == 1


def test_a_replaced_file_of_the_same_size_is_noticed(path: Path) -> None:
    first = b'{"step":0,"a":1}\n{"step":1,"a":2}\n'
    write(path, first)
    tail = Tail(path)
    tail.columns()
    write(path.with_suffix(".new"), first.replace(b'"a":2', b'"a":9'))
    path.with_suffix(".new").replace(path)
    assert tail.columns().series["a"].values.tolist() == [1.0, 9.0]


def test_a_file_that_disappears_leaves_no_rows(path: Path) -> None:
    write(path, rows(5))
    tail = Tail(path)
    tail.columns()
    path.unlink()
    assert tail.columns().n == 0


def test_the_sidecar_gives_the_same_columns_and_is_continued(path: Path) -> None:
    write(path, rows(100))
    first = Tail(path)
    expected = first.columns()
    first.save()
    second = Tail(path)
    assert second.unread_bytes() == 0
    write(path, rows(5, 100), "ab")
    assert second.unread_bytes() > 0
    columns = second.columns()
    assert columns.n == 105
    for key, column in expected.series.items():
        assert np.array_equal(columns.series[key].values[: len(column.values)], column.values)


def test_a_sidecar_of_another_file_or_damaged_is_ignored(path: Path) -> None:
    write(path, rows(100))
    tail = Tail(path)
    tail.columns()
    tail.save()
    write(path, rows(100, 5))
    assert Tail(path).columns().step[0] == 5
    write(path, rows(100))
    tail = Tail(path)
    tail.columns()
    tail.save()
    target = tail.sidecar_path
    for damage in (b"", b"umsicht-columns\n{", target.read_bytes()[:200], b"\0" * 500):
        target.write_bytes(damage)
        assert Tail(path).columns().n == 100


def test_what_a_resume_overwrote_is_history_and_agrees_with_the_record(tmp_path: Path) -> None:
    folder = make_run(tmp_path, steps=200, resume_at=120)
    columns = Tail(folder / "metrics.jsonl").columns()
    old = replaced_rows(columns)
    assert old.sum() == 80 and columns.step[old].min() == 120
    record = read_metrics(folder / "metrics.jsonl")
    steps, values = record.series("train/loss")
    kept = columns.series["train/loss"]
    counted = ~old[kept.rows]
    assert columns.step[kept.rows][counted].tolist() == steps
    assert kept.values[counted].tolist() == values
    drawn = draw(columns, "train/loss", pixels=2000)
    assert drawn.now.n_points == 400 and drawn.history.n_points == 80


def test_three_attempts_leave_only_what_counts(path: Path) -> None:
    write(path, rows(100) + rows(50, 60, segment=1) + rows(80, 40, segment=2))
    columns = Tail(path).columns()
    kept = columns.step[~replaced_rows(columns)]
    assert kept.tolist() == list(range(120))


def test_many_readers_at_once_see_whole_rows(path: Path) -> None:
    write(path, rows(2000))
    tail = Tails().of(path)
    seen: list[int] = []
    threads = [threading.Thread(target=lambda: seen.append(tail.columns().n)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [2000] * 8


def test_the_cache_lies_outside_the_run(tmp_path: Path, cache: Path) -> None:
    folder = make_run(tmp_path, steps=50)
    before = sorted(folder.rglob("*"))
    tail = Tail(folder / "metrics.jsonl")
    tail.columns()
    tail.save()
    assert sorted(folder.rglob("*")) == before
    assert sidecar.cache_folder(folder).is_relative_to(cache)


def test_a_line_without_end_is_not_kept_in_memory_twice(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("umsicht.dashboard.tail.LONGEST_LINE_BYTES", 5000)
    monkeypatch.setattr("umsicht.dashboard.tail.CHUNK_BYTES", 1000)
    write(path, rows(3) + b'{"step": 9, "x": "' + b"a" * 20_000 + b'"}\n' + rows(2, 3))
    columns = Tail(path).columns()
    assert columns.n == 5 and columns.bad == 1
