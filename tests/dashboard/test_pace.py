"""How long a run will take yet, told from rows whose clock may have been set in between."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from umsicht.dashboard.summary import eta_seconds
from umsicht.record.columns import Columns, read_columns


def columns(folder: Path, times: list[float]) -> Columns:
    path = folder / "metrics.jsonl"
    rows = [
        {"step": n + 1, "tokens": n, "time": time, "segment": 0, "train/loss": 1.0}
        for n, time in enumerate(times)
    ]
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return read_columns(path)[0]


@pytest.mark.parametrize("jump", [0.0, 3600.0, -3600.0])
def test_a_clock_that_was_set_changes_no_estimate(tmp_path: Path, jump: float) -> None:
    times = [1000.0 + 2.0 * n + (jump if n >= 20 else 0.0) for n in range(40)]
    assert eta_seconds(columns(tmp_path, times), 101) == pytest.approx(120.0)


def test_a_long_validation_counts(tmp_path: Path) -> None:
    times = [1000.0 + 2.0 * n + (40.0 if n >= 20 else 0.0) for n in range(40)]
    assert eta_seconds(columns(tmp_path, times), 101) == pytest.approx(60 * (2.0 + 40.0 / 39))


def test_without_a_plan_or_a_pace_nothing_is_said(tmp_path: Path) -> None:
    assert eta_seconds(columns(tmp_path, [1000.0, 1002.0, 1004.0]), None) is None
    assert eta_seconds(columns(tmp_path, [1000.0] * 5), 101) is None
