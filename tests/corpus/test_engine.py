"""The same result from one process, from an embedded cluster, and from a scheduler of its own whose worker is killed midway."""

from __future__ import annotations

import pickle
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from bench.corpus.cluster import cluster, killed_midway
from made_texts import write_texts

from umsicht.corpus import CorpusInputs, build
from umsicht.corpus.engine import Serial
from umsicht.corpus.stage import build_share
from umsicht.findings import UserError
from umsicht.recipe.corpus import CorpusSettings
from umsicht.record import Artifact, Store


def settings_for(path: Path, partition_bytes: int = 200_000, **engine: object) -> CorpusSettings:
    return CorpusSettings.model_validate(
        {
            "sources": [{"name": "s", "path": str(path), "licence": "CC0-1.0", "language": "en"}],
            "partition_bytes": partition_bytes,
            "engine": engine,
        }
    )


def contents(made: Artifact) -> dict[str, bytes]:
    names = sorted(path for split in ("train", "val", "dropped") for path in (made.path / split).iterdir())
    return {path.relative_to(made.path).as_posix(): path.read_bytes() for path in names}


def test_shares_of_a_job_array_add_up(tmp_path: Path) -> None:
    write_texts(tmp_path / "a.jsonl", 1_500)
    settings = settings_for(tmp_path / "a.jsonl", executor="serial")
    whole = build(settings, CorpusInputs(Store(tmp_path / "whole")))
    shared = CorpusInputs(Store(tmp_path / "shared"))
    for k in (1, 2, 3):
        folder = build_share(settings, shared, (k, 3))
    assert len(list((folder / "read").glob("*.json"))) > 1
    made = build(settings, shared)
    assert made.id == whole.id and contents(made) == contents(whole)
    with pytest.raises(UserError):
        build_share(settings, shared, (4, 3))


class Weighing(Serial):
    """Runs tasks and keeps, by function, how many there were and the size of the largest on its way to a worker."""

    def __init__(self) -> None:
        self.tasks: dict[str, int] = {}
        self.bytes: dict[str, int] = {}

    def run(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        todo, name = list(tasks), function.__name__
        self.tasks[name] = self.tasks.get(name, 0) + len(todo)
        self.bytes[name] = max(self.bytes.get(name, 0), *(len(pickle.dumps(task)) for task in todo))
        return super().run(function, todo)


def test_a_task_is_no_larger_where_there_are_more_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_texts(tmp_path / "a.jsonl", 150)
    few, many = Weighing(), Weighing()
    for name, engine, partition in (("a", few, 60_000), ("b", many, 10_000)):
        monkeypatch.setattr("umsicht.corpus.stage.open_engine", lambda *_, engine=engine: nullcontext(engine))
        build(settings_for(tmp_path / "a.jsonl", partition), CorpusInputs(Store(tmp_path / name)))
    assert many.tasks["finish"] > 3 * few.tasks["finish"] and set(many.bytes) == set(few.bytes)
    digits_of_numbers = 16
    assert {
        name: size for name, size in many.bytes.items() if size > few.bytes[name] + digits_of_numbers
    } == {}


def test_a_scheduler_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("umsicht.corpus.engine.START_TIMEOUT_S", 1)
    write_texts(tmp_path / "a.jsonl", 10)
    with pytest.raises(UserError, match=r"tcp://127\.0\.0\.1:1"):
        build(
            settings_for(tmp_path / "a.jsonl", address="tcp://127.0.0.1:1"),
            CorpusInputs(Store(tmp_path / "x")),
        )


@pytest.mark.long
def test_an_embedded_cluster_gives_the_serial_result(tmp_path: Path) -> None:
    write_texts(tmp_path / "a.jsonl", 3_000)
    serial = build(
        settings_for(tmp_path / "a.jsonl", executor="serial"), CorpusInputs(Store(tmp_path / "serial"))
    )
    dask = build(
        settings_for(tmp_path / "a.jsonl", executor="dask", workers=2), CorpusInputs(Store(tmp_path / "dask"))
    )
    assert contents(dask) == contents(serial)


@pytest.mark.long
def test_a_killed_worker_changes_nothing(tmp_path: Path) -> None:
    write_texts(tmp_path / "a.jsonl", 6_000)
    serial = build(
        settings_for(tmp_path / "a.jsonl", executor="serial"), CorpusInputs(Store(tmp_path / "serial"))
    )
    store = tmp_path / "cluster"
    with cluster(tmp_path) as started, killed_midway(started.workers[0], store) as killed:
        made = build(settings_for(tmp_path / "a.jsonl", address=started.address), CorpusInputs(Store(store)))
        assert killed.is_set() and started.workers[0].wait() == -signal.SIGKILL
    assert contents(made) == contents(serial)
