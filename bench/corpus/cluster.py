"""A scheduler and two workers as processes of their own, one of them killed midway: the same documents as from one process, byte for byte."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from bench.common import QUICK, Bench
from bench.corpus.texts import varied
from umsicht.corpus import CorpusInputs, build
from umsicht.corpus.document import parts
from umsicht.recipe.corpus import CorpusSettings
from umsicht.record import Artifact, Store

SIZE = 8_000_000 if QUICK else 320_000_000
PARTITION = 500_000 if QUICK else 16_000_000
WORKERS = 2
FINISHED_BEFORE = 3
"""Partitions that are ready before a worker is killed."""
PATIENCE_S = 600


@dataclass
class Cluster:
    """A scheduler with its workers."""

    address: str
    workers: list[subprocess.Popen[bytes]]


@contextmanager
def cluster(folder: Path, workers: int = WORKERS) -> Iterator[Cluster]:
    """Dask's own processes, started from the command line. Ended at the end, whatever happened."""
    dask = shutil.which("dask") or str(Path(sys.executable).parent / "dask")
    told = folder / "scheduler.json"
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    scheduler = ["scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file"]
    worker = ["worker", "--nthreads", "1", "--no-nanny", "--no-dashboard", "--scheduler-file"]
    started = [subprocess.Popen([dask, *scheduler, str(told)], **quiet)]
    try:
        address = str(json.loads(_content(told))["address"])
        started += [subprocess.Popen([dask, *worker, str(told)], **quiet) for _ in range(workers)]
        yield Cluster(address, started[1:])
    finally:
        for process in reversed(started):
            process.kill()
            process.wait()


def _content(path: Path) -> bytes:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if path.is_file() and (data := path.read_bytes()).rstrip().endswith(b"}"):
            return data
        time.sleep(0.05)
    raise TimeoutError(path.name)


@contextmanager
def killed_midway(process: subprocess.Popen[bytes], store: Path) -> Iterator[threading.Event]:
    """Kill a process once a few partitions of the build in `store` are ready. The event says whether that has happened."""
    done, over = threading.Event(), threading.Event()

    def watch() -> None:
        while not over.is_set():
            if len(list(store.glob("work/*/read/?????.json"))) >= FINISHED_BEFORE:
                process.kill()
                done.set()
                return
            time.sleep(0.01)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield done
    finally:
        over.set()
        watcher.join()


def digest(made: Artifact) -> dict[str, str]:
    """Hash of every file of documents and drops."""
    return {
        f"{split}/{path.name}": hashlib.sha256(path.read_bytes()).hexdigest()
        for split in ("train", "val", "dropped")
        for path in parts(made, split)
    }


def run(bench: Bench) -> None:
    """One process, then two workers of which one is killed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "in"
        source.mkdir()
        texts = varied(SIZE, seed=7)
        for number in range(4):
            with (source / f"{number}.jsonl").open("w", encoding="utf-8") as file:
                file.writelines(json.dumps({"text": text}) + "\n" for text in texts[number::4])
        size = sum(path.stat().st_size for path in source.iterdir())
        serial = build(_settings(source, executor="serial"), CorpusInputs(Store(folder / "serial")))
        with cluster(folder) as started, killed_midway(started.workers[0], folder / "cluster") as killed:
            made = build(_settings(source, address=started.address), CorpusInputs(Store(folder / "cluster")))
        documents = sum(pq.ParquetFile(path).metadata.num_rows for path in parts(made, "train"))
        note = f"{size / 1e6:.0f} MB, {documents} training documents, worker killed: {killed.is_set()}"
        mine, theirs = digest(serial), digest(made)
        different = sum(mine.get(file) != theirs.get(file) for file in mine.keys() | theirs.keys())
        bench.figure(
            "files that differ from one process's, a worker killed",
            different if killed.is_set() else None,
            "== 0",
            note=note,
        )


def _settings(source: Path, **engine: object) -> CorpusSettings:
    return CorpusSettings.model_validate(
        {
            "sources": [{"name": "bench", "path": str(source), "licence": "CC0-1.0"}],
            "partition_bytes": PARTITION,
            "engine": engine,
        }
    )
