"""The same result from one process, from an embedded cluster, and from a scheduler of its own whose worker is killed midway."""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path

import pytest
from bench.corpus.cluster import cluster, killed_midway

from umsicht.corpus import CorpusInputs, build
from umsicht.corpus.stage import build_share
from umsicht.findings import UserError
from umsicht.recipe.corpus import CorpusSettings
from umsicht.record import Artifact, Store

WORDS = [
    "amber",
    "bridge",
    "candle",
    "dune",
    "ember",
    "fern",
    "grove",
    "harbour",
    "iron",
    "jasper",
    "kelp",
    "lantern",
]


def write_texts(path: Path, n: int) -> None:
    rng = random.Random(1)
    made: list[str] = []
    with path.open("w", encoding="utf-8") as file:
        for k in range(n):
            if made and rng.random() < 0.2:
                text = rng.choice(made)[: rng.randint(200, 2000)]
            else:
                text = f"{k} " + " ".join(rng.choice(WORDS) + str(rng.randint(0, 9)) for _ in range(90))
            made.append(text)
            file.write(json.dumps({"text": text}) + "\n")


def settings_for(path: Path, **engine: object) -> CorpusSettings:
    return CorpusSettings.model_validate(
        {
            "sources": [{"name": "s", "path": str(path), "licence": "CC0-1.0", "language": "en"}],
            "partition_bytes": 200_000,
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
