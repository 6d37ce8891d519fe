"""`make bench-dashboard-trackio`: opening one run of one metric: the same rows, the same browser, our run page and trackio's page in turn."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from bench.common import QUICK, ROOT, Bench
from bench.dashboard.__main__ import CHROMIUM, browser, served
from bench.peers.environment import peer_python
from umsicht.record import Run

STEPS = 20_000 if QUICK else 100_000
PAIRS = 3 if QUICK else 7
OURS, THEIRS = "#chart-loss .uplot canvas", ".plot canvas"
WRITE = """
import json, sys, trackio
trackio.init(project="bench", name="one", embed=False, auto_log_cpu=False, auto_log_gpu=False)
for line in open(sys.argv[1]):
    row = json.loads(line)
    trackio.log({"train/loss": row["train/loss"]}, step=row["step"])
trackio.finish()
"""
SERVE = "import trackio; trackio.show('bench', open_browser=False, block_thread=True)"
CURVE = """selector => {
  const canvas = document.querySelector(selector);
  if (!canvas || !canvas.width || !canvas.height) return false;
  const dots = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  let coloured = 0;
  for (let i = 0; i < dots.length; i += 4)
    coloured += dots[i + 3] > 100 && Math.max(dots[i], dots[i + 1], dots[i + 2]) - Math.min(dots[i], dots[i + 1], dots[i + 2]) > 30;
  return coloured > 200;
}"""
"""A curve stands on the canvas: dots with a colour, which axes, grid and an empty chart have not."""

NAME = f"first chart of {STEPS:,} steps, times faster than trackio"


def main() -> None:
    """Measure, print, write."""
    bench = Bench(
        "dashboard_trackio",
        f"One run of {STEPS:,} steps with one metric, opened in an empty headless Chromium, ours and trackio's in turn.",
    )
    python = peer_python("dashboard")
    if python is None or not CHROMIUM.exists():
        missing = "no /usr/bin/chromium here" if python else "trackio's environment could not be made"
        bench.figure(NAME, None, note=missing)
    else:
        compare(bench, python)
    bench.finish()


def compare(bench: Bench, python: Path) -> None:
    """Both servers side by side, pages opened in turn."""
    ours, theirs = written(python)
    with browser() as context, served(ours) as (address, _), trackio_serves(python, theirs) as other:
        url, _, token = address.partition("?token=")
        pairs = [
            (
                seconds(context.browser, f"{url}run/one/?token={token}", OURS),
                seconds(context.browser, other, THEIRS),
            )
            for _ in range(PAIRS + 1)
        ]
    first, *later = [theirs / ours for ours, theirs in pairs]
    spread = f"median of {PAIRS} pairs, {min(later):.2f} to {max(later):.2f}; an empty browser each time, page opened to curve on the canvas"
    drawn = (
        "trackio draws 3,000 of the rows, we the least, the mean and the greatest of every stretch of them"
    )
    bench.figure(NAME, statistics.median(later), note=f"{spread}; {drawn}")
    bench.figure(
        f"{NAME}, right after both servers start", first, note="one pair; neither has read the rows yet"
    )


def written(python: Path) -> tuple[Path, Path]:
    """The same rows as our run and through trackio's own `log`, written once and kept under build/."""
    place = ROOT / "build" / f"dashboard-one-{STEPS}"
    ours, theirs, mark = place / "ours", place / "trackio", place / "written"
    if not mark.exists():
        shutil.rmtree(place, ignore_errors=True)
        run = Run.create(ours / "runs" / "one", {"name": "one", "seed": 0, "inputs": {}, "recipe": {}})
        step = np.arange(1, STEPS + 1)
        loss = 2.0 + 6.5 * np.exp(-step / (STEPS / 12)) + np.random.default_rng(0).normal(0, 0.03, STEPS)
        with run.metrics_path.open("wb") as file:
            file.writelines(
                orjson.dumps({"step": int(s), "train/loss": float(v)}) + b"\n"
                for s, v in zip(step, loss, strict=True)
            )
        run.update_manifest(state="done", segments=1)
        command = [str(python), "-c", WRITE, str(run.metrics_path)]
        subprocess.run(command, env=alone(theirs), stdout=subprocess.DEVNULL, check=True)
        mark.touch()
    return ours, theirs


def alone(folder: Path) -> dict[str, str]:
    """trackio's environment: its files in a folder of the bench, nothing asked of any other machine."""
    return {**os.environ, "TRACKIO_DIR": str(folder), "HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1"}


@contextlib.contextmanager
def trackio_serves(python: Path, folder: Path) -> Iterator[str]:
    """trackio's dashboard as its user starts it; yields its address."""
    process = subprocess.Popen(
        [str(python), "-c", SERVE], stdout=subprocess.PIPE, text=True, env=alone(folder)
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if found := re.search(r"http://[^\s\x1b]+", line):
                yield found.group()
                return
        raise RuntimeError("trackio printed no address")
    finally:
        process.terminate()
        process.wait(20)


def seconds(chromium: Any, url: str, canvas: str) -> float:
    """From opening the page in an empty browser until a curve stands on its canvas."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, locale="en-GB")
    page = context.new_page()
    began = time.perf_counter()
    page.goto(url, wait_until="commit")
    while not drawn(page, canvas):
        if time.perf_counter() - began > 120:
            raise TimeoutError(f"no curve at {url}")
        page.wait_for_timeout(25)
    taken = time.perf_counter() - began
    context.close()
    return taken


def drawn(page: Any, canvas: str) -> bool:
    """Whether a curve stands there; not yet while the page still goes from one address to the next."""
    from playwright.sync_api import Error

    with contextlib.suppress(Error):
        return bool(page.evaluate(CURVE, canvas))
    return False


if __name__ == "__main__":
    main()
