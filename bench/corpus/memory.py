"""Memory of a whole build: the largest sum of resident memory of all its processes, on one corpus and on a corpus three times as large. Real text and
variations of it; every document of the smaller one must lie in training or validation, or among the drops with a reason.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pyarrow.parquet as pq

from bench.common import QUICK, Bench
from bench.corpus.texts import respelt, varied

SMALL = 20_000_000 if QUICK else int(os.environ.get("BENCH_CORPUS_BYTES", "2_000_000_000"))
WARM_UP = 5_000_000
TIMES = 3
WORKERS = 2
LIMIT_GB = 1.5
_BUILD = """
import sys
from pathlib import Path
from umsicht.corpus import CorpusInputs, build
from umsicht.recipe.corpus import CorpusSettings
from umsicht.record import Store

if __name__ == "__main__":
    settings = CorpusSettings.model_validate({
        "sources": [{"name": "bench", "path": sys.argv[1], "licence": "CC0-1.0"}],
        "engine": {"executor": "dask", "workers": int(sys.argv[3])},
    })
    Path(sys.argv[4]).write_text(str(build(settings, CorpusInputs(Store(Path(sys.argv[2])))).path))
"""


def run(bench: Bench) -> None:
    """Two sizes; a run that was made smaller by BENCH_CORPUS_BYTES says so and cannot meet the target."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "build.py").write_text(_BUILD, encoding="utf-8")
        # Kernels are compiled once for an installation; measured with it, the smaller corpus would look larger than it is.
        _peak(folder, WARM_UP)
        small, lost = _peak(folder, SMALL)
        whole = QUICK or SMALL >= 2_000_000_000
        note = f"{SMALL / 1e9:.2f} GB of text, {WORKERS} workers, all processes together"
        bench.figure("peak memory", small, f"<= {LIMIT_GB}" if whole else "", unit="GB", note=note)
        bench.figure("documents that are nowhere, or gone without a reason", lost, "== 0", note=note)
        if not whole:
            bench.figure("peak memory on 2 GB", None, f"<= {LIMIT_GB}", note="a smaller corpus was measured")
        if os.environ.get("BENCH_CORPUS_ONCE"):
            bench.figure("peak memory on three times as much", None, "<= 1.1", note="times the smaller one")
        else:
            large, _ = _peak(folder, TIMES * SMALL)
            bench.figure(
                "peak memory on three times as much", large / small, "<= 1.1", note="times the smaller one"
            )


def _peak(folder: Path, size: int) -> tuple[float, int]:
    """Build a corpus of so many bytes in processes of its own: their largest resident memory in GB, and documents that are not accounted for."""
    written = 0
    source = folder / f"{size}"
    source.mkdir()
    part = min(size, 200_000_000)
    texts = varied(part)
    for number in range(-(-size // part)):
        with (source / f"{number:03d}.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(json.dumps({"text": text}) + "\n" for text in respelt(texts, number))
            written += len(texts)
    command = [
        sys.executable,
        str(folder / "build.py"),
        str(source),
        str(folder / f"out-{size}"),
        str(WORKERS),
        str(folder / "made"),
    ]
    process = subprocess.Popen(command)
    peak = 0.0
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.is_set():
            peak = max(peak, _resident(process.pid))
            time.sleep(0.2)

    watcher = threading.Thread(target=watch)
    watcher.start()
    code = process.wait()
    done.set()
    watcher.join()
    if code != 0:
        raise RuntimeError(f"the build ended with code {code}")
    shutil.rmtree(source)
    lost = written - _accounted(Path((folder / "made").read_text(encoding="utf-8")))
    shutil.rmtree(folder / f"out-{size}")
    return peak / 1e9, abs(lost)


def _accounted(made: Path) -> int:
    """Documents in training and validation, and those that went with stage and reason. Paragraphs that were cut out are no documents."""
    found = sum(
        pq.ParquetFile(path).metadata.num_rows
        for split in ("train", "val")
        for path in (made / split).glob("*.parquet")
    )
    for path in (made / "dropped").glob("*.parquet"):
        table = pq.read_table(path, columns=["stage", "reason", "detail"])
        for row in table.to_pylist():
            cut = row["stage"] == "paragraphs" and row["detail"].startswith("cut out of ")
            found += bool(row["stage"] and row["reason"]) and not cut
    return found


def _resident(root: int) -> int:
    """Resident memory of a process and all that came of it, mapped files included."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    total, todo = 0, [root]
    while todo:
        one = todo.pop()
        todo += children.get(one, [])
        try:
            for line in Path(f"/proc/{one}/status").read_text().split("\n"):
                if line.startswith("VmRSS"):
                    total += int(line.split()[1]) * 1024
        except OSError:
            continue
    return total
