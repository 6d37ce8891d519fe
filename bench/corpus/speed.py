"""Deduplication against peers on the same text in the same run: Parquet in, keep-list out, one thread, kernels warm, CPU time."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.common import QUICK, Bench
from bench.corpus.texts import varied
from bench.peers.environment import peer_python
from umsicht.corpus.document import read_columns
from umsicht.corpus.engine import Serial
from umsicht.corpus.index import save_array
from umsicht.corpus.kernels.spans import spans_of, words_and_lines_of
from umsicht.corpus.near import NearJob, find_near
from umsicht.corpus.near.tasks import SpanFile
from umsicht.corpus.pieces import PieceSettings, paragraph_sketches, paragraphs_path, pieces_of
from umsicht.corpus.work import Workspace

HERE = Path(__file__).parent
SIZE = 24_000_000 if QUICK else 320_000_000
PART = 32_000_000
REPEATS = 1 if QUICK else 3
SHARE = {
    "daft": 1.0,
    "rensa": 0.25 if QUICK else 0.2,
    "datasketch": 0.05 if QUICK else 0.02,
    "datatrove": 0.02 if QUICK else 0.01,
}
"""Share of the text that a peer gets: slow ones would take the machine for hours; rates are compared."""
TARGET = {"daft": ">= 2.0", "rensa": ">= 6.0", "datasketch": ">= 20.0", "datatrove": ""}


def run(bench: Bench) -> None:
    """Own figures, then each peer's."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        texts = varied(SIZE)
        files = _write(texts, folder)
        size = sum(len(text.encode()) for text in texts)
        _ours(files[:1], folder / "warm")
        seconds = [_ours(files, folder / f"run{k}") for k in range(REPEATS)]
        ours, slowest = size / min(seconds) / 1e6, size / max(seconds) / 1e6
        bench.figure(
            "dedupe, verified", ours, unit="MB/s CPU", note=f"{size / 1e6:.0f} MB, {len(texts)} documents"
        )
        paragraphs = min(_paragraphs(files, folder / f"paragraphs{k}") for k in range(REPEATS))
        bench.figure("dedupe of paragraphs, verified", size / paragraphs / 1e6, unit="MB/s CPU")
        for peer, wanted in TARGET.items():
            rate = _peer(peer, texts, folder)
            note = (
                "its environment or its run failed"
                if rate is None
                else f"{slowest / rate:.3g} to {ours / rate:.3g} by our {REPEATS} repeats; it does not verify what it finds and had "
                f"{SHARE[peer]:.0%} of the text; {peer}: {rate:.2f} MB/s"
            )
            bench.figure(
                f"times faster than {peer}", None if rate is None else ours / rate, wanted, note=note
            )


def _write(texts: list[str], folder: Path) -> list[str]:
    files: list[str] = []
    batch: list[str] = []
    held = 0
    for text in [*texts, None]:
        if text is not None:
            batch.append(text)
            held += len(text)
        if batch and (text is None or held >= PART):
            path = folder / f"{len(files):05d}.parquet"
            table = pa.table({"text": pa.array(batch, pa.large_string()), "domain": ["text"] * len(batch)})
            pq.write_table(table, path, compression="zstd", compression_level=1, row_group_size=2_000)
            files.append(str(path))
            batch, held = [], 0
    return files


def _ours(files: list[str], folder: Path) -> float:
    counts = [pq.ParquetFile(name).metadata.num_rows for name in files]
    folder.mkdir(exist_ok=True)
    started = time.process_time()
    state = save_array(folder / "state.npy", np.zeros(sum(counts), np.uint8))
    job = NearJob("near", [SpanFile(name) for name in files], counts, state)
    drops = find_near(job, Workspace(folder, "bench", "0" * 64), Serial()).drops
    keep = np.ones(sum(counts), bool)
    keep[drops["later"]] = False
    np.save(folder / "keep.npy", keep)
    return time.process_time() - started


def _paragraphs(files: list[str], folder: Path) -> float:
    folder.mkdir()
    counts = [pq.ParquetFile(name).metadata.num_rows for name in files]
    started = time.process_time()
    texts, sizes, groups, offset = [], [], [], 0
    for number, (name, count) in enumerate(zip(files, counts, strict=True)):
        spans = spans_of(read_columns(name, ["text"]).column("text"))
        found = pieces_of(
            *words_and_lines_of(spans), spans.starts, np.arange(count), PieceSettings(shingles=20)
        )
        path, sketches = paragraphs_path(folder, f"{number}"), paragraph_sketches(folder, f"{number}")
        np.save(path, found.paragraphs)
        np.save(sketches[0], found.sketches)
        np.save(sketches[1], found.sizes)
        texts.append(SpanFile(name, str(path), (str(sketches[0]), str(sketches[1]))))
        sizes.append(len(found.paragraphs))
        groups.append(found.paragraphs["row"] + np.uint32(offset))
        offset += count
    state = save_array(folder / "state.npy", np.zeros(sum(sizes), np.uint8))
    documents = save_array(folder / "documents.npy", np.concatenate(groups))
    job = NearJob("paragraph", texts, sizes, state, documents, min_shingles=20)
    find_near(job, Workspace(folder, "bench", "0" * 64), Serial())
    return time.process_time() - started


def _peer(peer: str, texts: list[str], folder: Path) -> float | None:
    python = peer_python("dedupe")
    if python is None:
        return None
    chosen = texts[: max(200, int(len(texts) * SHARE[peer]))]
    small, path = folder / "small.parquet", folder / f"{peer}.parquet"
    for target, rows in ((small, chosen[:200]), (path, chosen)):
        pq.write_table(pa.table({"text": pa.array(rows, pa.large_string())}), target, compression="zstd")
    command = [
        str(python),
        str(HERE / "peers_dedupe.py"),
        peer,
        str(path),
        str(folder / f"{peer}.txt"),
        str(small),
    ]
    best = None
    for _ in range(REPEATS if peer == "daft" else 1):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(done.stderr[-500:], file=sys.stderr)
            return None
        seconds = json.loads(done.stdout.strip().split("\n")[-1])["cpu_s"]
        best = seconds if best is None else min(best, seconds)
    size = sum(len(text.encode()) for text in chosen)
    return size / best / 1e6 if best else None
