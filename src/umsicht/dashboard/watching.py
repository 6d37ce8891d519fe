"""The view for the terminal: the same figures and verdict as the page, drawn with characters."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.columns import Columns as Flow
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from umsicht.dashboard import numbers
from umsicht.dashboard.curves import slices, with_gap
from umsicht.dashboard.facts import Json, RunFacts, diagnosis
from umsicht.dashboard.summary import first_nonfinite, state_of, summarise, thumbnail
from umsicht.dashboard.tables import tiles
from umsicht.dashboard.tail import Tail
from umsicht.dashboard.verdicts import verdict
from umsicht.record.columns import Columns
from umsicht.words import language, t

BLOCKS = "▁▂▃▄▅▆▇█"
STYLES = {"good": "green", "warn": "yellow", "bad": "bold red", "": "cyan"}
DIAGNOSE_EVERY_S = 20.0
PLAIN_EVERY_S = 30.0
ENDED = ("finished", "stopped", "failed", "interrupted")


class Watched:
    """A run that is looked at again and again; the diagnosis is renewed less often than the figures."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tail = Tail(folder / "metrics.jsonl")
        self._diagnosed_at = -math.inf
        self._diagnosis: Json | None = None

    def read(self) -> tuple[RunFacts, Columns, Json, Json | None]:
        """Manifest, columns, summary and diagnosis as they are now."""
        facts = RunFacts.open(self.folder)
        columns = with_gap(self.tail.columns())
        if time.monotonic() - self._diagnosed_at > DIAGNOSE_EVERY_S:
            self._diagnosis, self._diagnosed_at = diagnosis(self.folder, columns), time.monotonic()
        return facts, columns, summarise(columns, facts.manifest), self._diagnosis


def look(folder: Path) -> Json:
    """What one look shows, as plain JSON."""
    facts, columns, summary, found = Watched(folder).read()
    last = {key: columns.last(key) for key in columns.names()}
    return {
        "run": facts.name,
        "state": state_of(facts.manifest, summary),
        **summary,
        "last": last,
        "diagnosis": found,
    }


def watch_run(folder: Path, *, every: float = 2.0, once: bool = False) -> int:
    """Show the run until it ends or the user leaves; returns the exit code."""
    watched = Watched(folder)
    console = Console(highlight=False)
    if once or not console.is_terminal:
        return _plainly(watched, console, once)
    try:
        with Live(_screen(watched), console=console, screen=False, auto_refresh=False) as live:
            while True:
                live.update(_screen(watched), refresh=True)
                if state_of(*_state_inputs(watched)) in ENDED:
                    return 0
                time.sleep(max(0.2, every))
    except KeyboardInterrupt:
        return 0


def _state_inputs(watched: Watched) -> tuple[Json, Json]:
    facts, _, summary, _ = watched.read()
    return facts.manifest, summary


def _plainly(watched: Watched, console: Console, once: bool) -> int:
    """Without a terminal: one line now, then one every half minute until the run ends."""
    quiet = bool(os.environ.get("UMSICHT_QUIET"))
    while True:
        facts, columns, summary, found = watched.read()
        if once and sys.stdout.isatty():
            console.print(_render(facts, columns, summary, found))
        elif not quiet or once:
            print(line(facts, columns, summary, found), flush=True)
        if once or state_of(facts.manifest, summary) in ENDED:
            return 0
        time.sleep(PLAIN_EVERY_S)


def line(facts: RunFacts, columns: Columns, summary: Json, found: Json | None) -> str:
    """The run in one plain line."""
    lang = language()
    step = "–" if summary["step"] is None else f"{summary['step']:,}"
    planned = facts.manifest.get("planned_steps")
    parts = [facts.name, f"{step}/{planned:,}" if isinstance(planned, int) else step]
    for name, key in (
        ("loss", "train/loss"),
        ("val", "val/all/loss"),
        ("bpb", "val/all/bpb"),
        ("grad", "train/grad_norm"),
    ):
        value = columns.last(key)
        if value is not None:
            parts.append(f"{name} {value:.3f}")
    rate = columns.last("train/tokens_per_s")
    if rate:
        parts.append(f"{numbers.compact(round(rate), 'en')} tok/s")
    if summary.get("eta_s") and facts.manifest.get("state") == "running":
        parts.append(f"ETA {numbers.duration(summary['eta_s'])}")
    shown = verdict(found, lang)
    return "  ".join([*parts, f"[{shown.short}]"])


def _screen(watched: Watched) -> RenderableType:
    return _render(*watched.read())


def _render(facts: RunFacts, columns: Columns, summary: Json, found: Json | None) -> RenderableType:
    lang = language()
    now = state_of(facts.manifest, summary)
    shown = verdict(found, lang)
    parts: list[RenderableType] = [_head(facts, summary, now, lang)]
    bad = first_nonfinite(columns)
    if bad is not None:
        parts.append(
            Text(
                "✕ " + t("dashboard.live.nonfinite", step=numbers.number(bad["step"], lang), key=bad["key"]),
                style="bold red",
            )
        )
    parts.append(
        Text.assemble((f"{shown.sign} {shown.headline}", STYLES[shown.tone]), ("  " + shown.more, "dim"))
    )
    parts.append(Padding(_figures(facts, columns, lang), (1, 0)))
    parts.append(_curves(columns, lang))
    if shown.steps:
        parts.append(Padding(_steps(shown.steps[:3]), (1, 0, 0, 0)))
    return Group(*parts)


def _head(facts: RunFacts, summary: Json, now: str, lang: str) -> Text:
    planned, step = facts.manifest.get("planned_steps"), summary["step"]
    share = (
        min(1.0, (step + 1) / planned) if isinstance(planned, int) and planned and step is not None else None
    )
    text = Text.assemble(
        (facts.name, "bold"), "  ", (t(f"dashboard.state.{now}"), "green" if now == "running" else "dim")
    )
    if step is not None:
        text.append(f"  {t('dashboard.tile.step')} {numbers.number(step, lang)}")
    if share is not None:
        filled = round(share * 20)
        text.append(
            f" / {numbers.number(planned, lang)}  {'█' * filled}{'░' * (20 - filled)} {numbers.percent(share, lang, 0)}"
        )
    if summary.get("eta_s") and now == "running":
        text.append(f"  {t('dashboard.runs.eta')} {numbers.duration(summary['eta_s'])}")
    return text


def _figures(facts: RunFacts, columns: Columns, lang: str) -> Flow:
    """The page's tiles, as many beside each other as the terminal is wide."""
    shown = tiles(facts, columns, lang)[1:]
    return Flow(
        [
            Text.assemble((tile.label + " ", "dim"), (tile.value, "bold"), (" " + tile.note, "dim"))
            for tile in shown
        ],
        padding=(0, 3),
    )


def _curves(columns: Columns, lang: str) -> Table:
    """Training, validation and each slice as a row with a small curve."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(justify="right")
    rows = [("train/loss", t("dashboard.curve.train")), ("val/all/loss", t("dashboard.curve.val"))]
    rows += [(f"val/{name}/bpb", name) for name in slices(columns)]
    for key, label in rows:
        if key in columns.series:
            value = columns.last(key)
            table.add_row(
                label, Text(bars(thumbnail(columns, key)), style="cyan"), numbers.number(value, lang)
            )
    return table


def bars(values: Sequence[float]) -> str:
    """A curve in eighths of a character; logarithmic where it spans more than a factor of six, as on the pages."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return ""
    low, high = min(finite), max(finite)
    use = math.log if low > 0 and high / low > 6 else float
    bottom, span = use(low), (use(high) - use(low)) or 1.0
    return "".join(BLOCKS[min(7, int((use(value) - bottom) / span * 7.999))] for value in finite)


def _steps(steps: Sequence[Any]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim")
    table.add_column()
    for number, step in enumerate(steps, 1):
        text = Text(step.what)
        if step.command:
            text.append(f"\n{step.command}", style="cyan")
        table.add_row(f"{number}.", text)
    return table
