"""The same result from one process, from an embedded cluster, and from a scheduler of its own whose worker is killed midway."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

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
    size = int(os.environ.get("UMSICHT_TEST_CLUSTER_DOCUMENTS", "6000"))
    write_texts(tmp_path / "a.jsonl", size)
    serial = build(
        settings_for(tmp_path / "a.jsonl", executor="serial"), CorpusInputs(Store(tmp_path / "serial"))
    )
    dask = shutil.which("dask") or str(Path(sys.executable).parent / "dask")
    port = 20_000 + os.getpid() % 20_000
    address = f"tcp://127.0.0.1:{port}"
    started = [
        subprocess.Popen(
            [dask, "scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"],
            stderr=subprocess.DEVNULL,
        )
    ]
    try:
        for _ in range(2):
            started.append(
                subprocess.Popen(
                    [
                        dask,
                        "worker",
                        address,
                        "--nthreads",
                        "1",
                        "--no-nanny",
                        "--no-dashboard",
                        "--death-timeout",
                        "60",
                    ],
                    stderr=subprocess.DEVNULL,
                )
            )
        killer = subprocess.Popen(
            [
                sys.executable,
                "-c",
                (
                    "import os,sys,time,glob\n"
                    "pid,folder=int(sys.argv[1]),sys.argv[2]\n"
                    "end=time.time()+120\n"
                    "while time.time()<end and not glob.glob(folder+'/work/*/read/0000[3-9].json'): time.sleep(0.05)\n"
                    f"os.kill(pid,{int(signal.SIGKILL)})"
                ),
                str(started[1].pid),
                str(tmp_path / "cluster"),
            ]
        )
        started.append(killer)
        made = build(
            settings_for(tmp_path / "a.jsonl", address=address), CorpusInputs(Store(tmp_path / "cluster"))
        )
        assert started[1].wait(timeout=120) == -signal.SIGKILL
        assert contents(made) == contents(serial)
    finally:
        for process in reversed(started):
            process.terminate()
        time.sleep(0.2)
        for process in started:
            process.kill()
            process.wait()
