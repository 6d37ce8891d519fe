"""`make bench-dashboard`: fifty runs of a hundred thousand steps in a real browser against the real server."""

from __future__ import annotations

import contextlib
import math
import os
import random
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.common import QUICK, ROOT, Bench
from bench.dashboard.records import SPIKES, line, write_run
from umsicht.dashboard import report

RUNS, STEPS = (6, 20_000) if QUICK else (50, 100_000)
REPEATS = 3
CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def main() -> None:
    """Measure, print, write."""
    bench = Bench(
        "dashboard",
        f"{RUNS} runs of {STEPS:,} logged steps each; headless Chromium and the server share the machine.",
    )
    if not CHROMIUM.exists():
        for name in (
            "overview, warm",
            "first chart",
            "appended rows visible",
            "server memory",
            "accessibility: serious or critical",
        ):
            bench.figure(name, None, note="no /usr/bin/chromium here")
        bench.finish()
    os.environ["OMP_NUM_THREADS"] = "1"
    project = written_runs()
    folders = sorted((project / "runs").iterdir())
    with tempfile.TemporaryDirectory(prefix="umsicht-bench-") as place:
        os.environ["XDG_CACHE_HOME"] = str(Path(place) / "cache")
        without_a_browser(bench, folders[-1], Path(place))
        with browser() as chromium, served(project) as (address, pid):
            url = let_in(chromium, address)
            first_open(bench, chromium, url)
            warm(bench, chromium, url, folders[-1])
            comparing(bench, chromium, url)
            bench.figure("server memory (resident) after all of it", resident(pid), "<= 300", unit="MB")
            bench.figure("accessibility: serious or critical violations", axe(chromium, url), "<= 0")
    bench.finish()


def written_runs() -> Path:
    """The runs, written once and kept under build/ because writing them takes longer than measuring; live rows are cut off again."""
    project = ROOT / "build" / f"dashboard-{RUNS}x{STEPS}"
    for number in range(RUNS):
        folder = project / "runs" / f"run-{number:02d}"
        mark = folder / "written"
        if not mark.exists():
            shutil.rmtree(folder, ignore_errors=True)
            write_run(project, number, STEPS)
            mark.write_text(str((folder / "metrics.jsonl").stat().st_size))
        os.truncate(folder / "metrics.jsonl", int(mark.read_text()))
    return project


def without_a_browser(bench: Bench, folder: Path, place: Path) -> None:
    """Start of the command line, size of report and assets."""
    times = []
    for _ in range(5):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "umsicht", "--help"], capture_output=True, check=True)
        times.append(time.perf_counter() - began)
    bench.figure("umsicht --help", min(times), "<= 0.4", unit="s", note="best of 5 processes")
    began = time.perf_counter()
    written = report(folder, place / "report.html")
    bench.figure(
        "report file",
        written.stat().st_size / 1e6,
        "<= 1.5",
        unit="MB",
        note=f"both languages, {STEPS:,} steps",
    )
    bench.figure("report written in", time.perf_counter() - began, unit="s", note="no cached columns")
    home = ROOT / "src" / "umsicht" / "dashboard"
    assets = sum(
        path.stat().st_size
        for name in ("static", "templates", "_vendor")
        for path in (home / name).glob("*")
        if path.is_file()
    )
    bench.figure("web assets in the wheel", assets / 1e6, "<= 1", unit="MB", note="unpacked")


def first_open(bench: Bench, chromium: Any, url: str) -> None:
    """Nothing cached: the list must show itself and its progress at once, and fill newest first."""
    page = chromium.new_page()
    began = time.perf_counter()
    page.goto(url)
    page.locator("tr[data-run]").first.wait_for()
    bench.figure("cold: list of runs visible", time.perf_counter() - began, "<= 2", unit="s")
    page.locator("#preparing:not([hidden])").wait_for(timeout=10_000)
    bench.figure("cold: progress visible", time.perf_counter() - began, "<= 5", unit="s")
    newest = page.locator("tr[data-run]").first
    newest.locator("svg.spark").wait_for(timeout=120_000)
    bench.figure("cold: newest run ready", time.perf_counter() - began, unit="s")
    until(
        page,
        "document.querySelectorAll('tr[data-run] svg.spark').length === document.querySelectorAll('tr[data-run]').length",
        900,
    )
    bench.figure(
        "cold: all runs ready",
        time.perf_counter() - began,
        unit="s",
        note="in a process of its own; pages answer meanwhile",
    )
    page.locator("#preparing[hidden]").wait_for(state="attached", timeout=900_000)
    page.close()


def warm(bench: Bench, chromium: Any, url: str, folder: Path) -> None:
    """Overview, first chart, live rows, spikes; and, for comparison, a page that reads no run at all."""
    overview, chart, nothing = [], [], []
    for _ in range(REPEATS):
        page = chromium.new_page()
        began = time.perf_counter()
        page.goto(f"{url}ratings", wait_until="commit")
        page.locator("h1").first.wait_for()
        nothing.append(time.perf_counter() - began)
        page.close()
        page = chromium.new_page()
        began = time.perf_counter()
        page.goto(url, wait_until="commit")
        page.locator("tr[data-run]").nth(RUNS - 1).wait_for()
        overview.append(time.perf_counter() - began)
        page.close()
        page = chromium.new_page()
        began = time.perf_counter()
        page.goto(f"{url}run/{folder.name}/", wait_until="commit")
        page.locator("#chart-loss .uplot canvas").wait_for()
        chart.append(time.perf_counter() - began)
        page.close()
    spread = f"median of {REPEATS}"
    bench.figure(
        "control: a page without any run",
        statistics.median(nothing),
        unit="s",
        note="what browser and machine take by themselves",
    )
    bench.figure(
        "load average of the machine meanwhile",
        os.getloadavg()[0],
        note="above 2 the times say more about the neighbours",
    )
    bench.figure("overview, warm", statistics.median(overview), "<= 1", unit="s", note=spread)
    bench.figure(
        "first chart",
        statistics.median(chart),
        "<= 2",
        unit="s",
        note=f"from navigation to drawn canvas, {spread}",
    )
    page = chromium.new_page()
    page.goto(f"{url}run/{folder.name}/")
    page.locator("#chart-loss .uplot canvas").wait_for()
    page.wait_for_timeout(3000)
    delays = [appended(page, folder, STEPS + 10 * n) for n in range(REPEATS)]
    bench.figure("appended rows visible", max(delays), "<= 3", unit="s", note=f"worst of {REPEATS}, poll 2 s")
    bench.figure(
        "planted spikes drawn",
        drawn_spikes(page) / len([s for s in SPIKES if s < STEPS]),
        ">= 1",
        note="share, read from the table behind the chart",
    )
    page.close()


def appended(page: Any, folder: Path, step: int) -> float:
    """Seconds from writing ten rows until the page names the last of them."""
    dice = random.Random(step)
    with (folder / "metrics.jsonl").open("ab") as file:
        file.writelines(line(s, 2.1, 0.7, 52_000.0, STEPS, dice) for s in range(step + 1, step + 11))
    began = time.perf_counter()
    page.locator("#top .tile dd", has_text=f"{step + 10:,}").wait_for(timeout=20_000)
    until(page, f"Number(document.querySelector('#chart-loss').dataset.drawn) >= {step + 10}", 20)
    return time.perf_counter() - began


def until(page: Any, condition: str, seconds: float) -> None:
    """Wait for a condition without asking the page to evaluate strings, which its security policy forbids."""
    end = time.monotonic() + seconds
    while not page.evaluate(condition):
        if time.monotonic() > end:
            raise TimeoutError(condition)
        page.wait_for_timeout(50)


def drawn_spikes(page: Any) -> int:
    """How many planted spikes are the maximum of the bucket drawn at their place."""
    page.locator("#chart-loss details.behind summary").click()
    cells = page.locator("#chart-loss tbody tr").evaluate_all(
        "rows => rows.map(row => [row.cells[0].textContent, row.cells[2].textContent])"
    )
    drawn = [(axis_value(at), axis_value(high)) for at, high in cells if high != "–"]
    found = 0
    for spike in (spike for spike in SPIKES if spike < STEPS):
        floor = 2.0 + 6.5 * math.exp(-spike / (STEPS / 12)) + 3.0
        found += any(abs(at - spike) <= 300 and high > floor for at, high in drawn)
    return found


def axis_value(text: str) -> float:
    """A number as the page writes it in English: `1,733` or `20.11 k`."""
    digits, _, prefix = text.replace(",", "").replace("\u202f", " ").partition(" ")
    return float(digits) * {"k": 1e3, "M": 1e6}.get(prefix, 1.0)


def comparing(bench: Bench, chromium: Any, url: str) -> None:
    """All runs on one chart: six curves and one envelope."""
    page = chromium.new_page()
    began = time.perf_counter()
    page.goto(
        f"{url}compare?key=train/loss&" + "&".join(f"run=run-{number:02d}" for number in range(RUNS)),
        wait_until="commit",
    )
    page.locator("#chart-compare .uplot canvas").wait_for(timeout=120_000)
    bench.figure(f"comparison of {RUNS} runs drawn", time.perf_counter() - began, unit="s")
    page.close()


def axe(chromium: Any, url: str) -> float | None:
    """Serious and critical violations over the pages, or None where the checker is not installed."""
    source = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
    if not source.exists():
        return None
    page = chromium.new_page()
    found = 0
    for name in (
        "",
        "run/run-00/",
        "run/run-00/diagnosis",
        "run/run-00/sheet",
        "run/run-00/checkpoints",
        "compare",
        "planner",
        "help",
        "ratings",
    ):
        page.goto(url + name)
        page.wait_for_timeout(1200)
        page.evaluate(source.read_text("utf-8"))
        found += page.evaluate(
            "async () => (await axe.run()).violations.filter(v => ['serious', 'critical'].includes(v.impact)).length"
        )
    page.close()
    return float(found)


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    """Headless Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        context = made.new_context(viewport={"width": 1280, "height": 900}, locale="en-GB")
        try:
            yield context
        finally:
            made.close()


@contextlib.contextmanager
def served(project: Path) -> Iterator[tuple[str, int]]:
    """The server as a user starts it, with its process id."""
    command = [sys.executable, "-m", "umsicht", "dashboard", str(project), "--no-browser"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "UMSICHT_LANG": "en"}
    )
    assert process.stdout is not None
    try:
        found = re.search(r"http://\S+", process.stdout.readline())
        if found is None:
            raise RuntimeError("the server printed no address")
        wait_for(found.group())
        yield found.group(), process.pid
    finally:
        process.terminate()
        process.wait(10)


def let_in(chromium: Any, address: str) -> str:
    """Hand over the token, on a page that reads no run; returns the address without it."""
    page = chromium.new_page()
    url, _, token = address.partition("?token=")
    page.goto(f"{url}help?token={token}")
    page.close()
    return url


def wait_for(url: str) -> None:
    """Until the port answers."""
    parts = urlsplit(url)
    for _ in range(200):
        with (
            contextlib.suppress(OSError),
            socket.create_connection((parts.hostname or "", parts.port or 80), 1),
        ):
            return
        time.sleep(0.05)


def resident(pid: int) -> float:
    """Resident memory of a process in MB."""
    for text in Path(f"/proc/{pid}/status").read_text().splitlines():
        if text.startswith("VmRSS:"):
            return int(text.split()[1]) / 1024
    return float("nan")


if __name__ == "__main__":
    written_runs() if sys.argv[1:] == ["write"] else main()
