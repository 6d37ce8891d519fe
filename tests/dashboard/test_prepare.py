"""The preparing process: newest first, progress told, verdicts last, a broken run in nobody's way."""

from __future__ import annotations

import time
from pathlib import Path

from tests.dashboard.records import make_run

from umsicht.dashboard.context import Dashboard
from umsicht.dashboard.prepare import DIAGNOSIS, SUMMARY, cached, prepare_columns
from umsicht.dashboard.sidecar import cache_folder
from umsicht.dashboard.tail import Tail
from umsicht.dashboard.worker import Worker


def wait(worker: Worker, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while (worker.progress()["active"] or worker._busy) and time.monotonic() < end:
        time.sleep(0.05)


def test_the_worker_prepares_columns_summary_and_verdict(tmp_path: Path) -> None:
    folders = [make_run(tmp_path, name, steps=120, overfit=True) for name in ("one", "two")]
    (tmp_path / "runs" / "gone").mkdir()
    worker = Worker()
    worker.ask([tmp_path / "runs" / "gone", *folders], "de")
    wait(worker)
    for folder in folders:
        summary, is_fresh = cached(folder, SUMMARY)
        assert is_fresh and summary is not None and summary["step"] == 119 and len(summary["spark"]) > 10
        verdicts, is_fresh = cached(folder, DIAGNOSIS)
        assert is_fresh and verdicts is not None and list(verdicts) == ["de"]
        assert Tail(folder / "metrics.jsonl").unread_bytes() == 0
    assert worker.progress()["left"] == 0
    worker.close()


def test_an_outdated_summary_is_known_to_be_outdated(tmp_path: Path) -> None:
    folder = make_run(tmp_path, steps=60)
    prepare_columns(folder)
    assert cached(folder, SUMMARY)[1]
    with (folder / "metrics.jsonl").open("ab") as file:
        file.write(b'{"step": 60}\n')
    content, is_fresh = cached(folder, SUMMARY)
    assert content is not None and not is_fresh


def test_a_damaged_cache_is_worth_nothing(tmp_path: Path) -> None:
    folder = make_run(tmp_path, steps=30)
    prepare_columns(folder)
    for damage in ("", "[]", '{"content": 3}', '{"stamp": [1], "content": {}}'):
        (cache_folder(folder) / SUMMARY).write_text(damage)
        assert cached(folder, SUMMARY) == (None, False)


def test_a_long_run_is_left_to_the_worker_and_the_page_waits(tmp_path: Path) -> None:
    folder = make_run(tmp_path, "long", steps=30)
    line = (folder / "metrics.jsonl").read_bytes().splitlines(keepends=True)[1]
    (folder / "metrics.jsonl").write_bytes(line * (3_500_000 // len(line)))
    dashboard = Dashboard(tmp_path)
    (entry,) = dashboard.index.entries()
    assert dashboard.columns(entry) is None
    wait(dashboard.worker)
    columns = dashboard.columns(entry)
    assert columns is not None and columns.n == 3_500_000 // len(line)
    dashboard.worker.close()
