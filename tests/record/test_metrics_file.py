"""metrics.jsonl survives kills, restarts and non-finite numbers."""

from __future__ import annotations

import math
from pathlib import Path

import orjson
from hypothesis import given
from hypothesis import strategies as st

from umsicht.record.metrics import MetricsWriter, read_metrics, spell, unspell


def test_rows_come_back_as_written_with_time_and_segment(tmp_path: Path) -> None:
    writer = MetricsWriter(tmp_path / "metrics.jsonl", segment=0)
    writer.write({"step": 1, "tokens": 10, "train/loss": 2.5})
    writer.write({"step": 2, "tokens": 20, "train/loss": math.nan})
    metrics = read_metrics(tmp_path / "metrics.jsonl")
    assert [row["step"] for row in metrics.rows] == [1, 2]
    assert metrics.rows[1]["train/loss"] == "NaN"
    assert math.isnan(metrics.series("train/loss")[1][1])
    assert set(metrics.rows[0]) >= {"time", "segment"}


def test_each_line_is_strict_json(tmp_path: Path) -> None:
    writer = MetricsWriter(tmp_path / "m.jsonl", segment=0)
    writer.write({"step": 1, "a": math.inf, "b": -math.inf, "c": math.nan})
    assert orjson.loads((tmp_path / "m.jsonl").read_bytes())["a"] == "Infinity"


def test_a_torn_last_line_is_counted_and_spoils_no_later_row(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step":1,"segment":0,"x":1}\n{"step":2,"segm')
    assert (len(read_metrics(path).rows), read_metrics(path).torn) == (1, 1)
    MetricsWriter(path, segment=1).write({"step": 2, "x": 5})
    metrics = read_metrics(path)
    assert [(row["step"], row["x"]) for row in metrics.rows] == [(1, 1), (2, 5)]
    assert metrics.bad == 1


def test_after_a_restart_the_last_writer_wins_and_undone_rows_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    first = MetricsWriter(path, segment=0)
    for step in range(1, 8):
        first.write({"step": step, "x": 0})
    second = MetricsWriter(path, segment=1)
    for step in (5, 6):
        second.write({"step": step, "x": 1})
    metrics = read_metrics(path)
    assert [(row["step"], row["x"]) for row in metrics.rows] == [
        (1, 0),
        (2, 0),
        (3, 0),
        (4, 0),
        (5, 1),
        (6, 1),
    ]
    assert metrics.replaced == 3


def test_rows_of_one_step_and_segment_are_joined(tmp_path: Path) -> None:
    writer = MetricsWriter(tmp_path / "m.jsonl", segment=0)
    writer.write({"step": 3, "train/loss": 1.0})
    writer.write({"step": 3, "val/all/bpb": 2.0})
    assert read_metrics(tmp_path / "m.jsonl").rows[0]["val/all/bpb"] == 2.0
    assert read_metrics(tmp_path / "m.jsonl").rows[0]["train/loss"] == 1.0


@given(st.one_of(st.floats(), st.integers(-(2**53), 2**53), st.booleans(), st.none()))
def test_spelling_is_undone_by_unspelling(value: object) -> None:
    back = unspell(orjson.loads(orjson.dumps(spell(value))))
    assert back == value or (isinstance(value, float) and math.isnan(value) and math.isnan(back))


@given(st.binary(max_size=400))
def test_no_bytes_make_the_reader_fail(data: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.jsonl"
        path.write_bytes(data)
        read_metrics(path)
        MetricsWriter(path, 1).write({"step": 9})
        assert read_metrics(path).rows[-1]["step"] >= 9
