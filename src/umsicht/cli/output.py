"""How verbs print: results to stdout, progress and notes to stderr; bars on a terminal, one plain line every 30 s elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

import orjson
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from umsicht.findings import Finding, render
from umsicht.record.metrics import spell
from umsicht.words import language, localise, numerals, t

GRADE_STYLE = {"stop": "bold red", "warn": "yellow", "note": "cyan"}
GRADE_MARK = {"stop": "✗", "warn": "!", "note": "·"}


def console() -> Console:
    """The console for results."""
    return Console(highlight=False, soft_wrap=not sys.stdout.isatty())


def print_json(obj: Any) -> None:
    """Print `obj` as JSON to stdout."""
    sys.stdout.buffer.write(
        orjson.dumps(spell(obj), option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS) + b"\n"
    )
    sys.stdout.flush()


NAME_WIDTH = 24
"""Names of rows up to this length stay on one line, however narrow the terminal."""


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str = "") -> None:
    """Print a plain table; columns whose cells are all numbers are set right."""
    cells = [[numerals(str(cell)) for cell in row] for row in rows]
    table = Table(title=title or None, box=None, pad_edge=False, header_style="bold", title_justify="left")
    for index, name in enumerate(columns):
        numeric = bool(cells) and all(_numeric(row[index]) for row in cells)
        is_short_name = index == 0 and max((len(row[0]) for row in cells), default=0) <= NAME_WIDTH
        table.add_column(name, justify="right" if numeric else "left", overflow="fold", no_wrap=is_short_name)
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))
    console().print(table)


def _numeric(cell: str) -> bool:
    return not cell or cell[:1].isdigit() or cell[:1] in "-+−" or cell in ("—", "nan")


def print_finding(finding: Finding, *, to: Console | None = None) -> None:
    """A finding in words: mark and title, what was seen, causes in order, the one next step."""
    words = render(finding)
    out = to or console()
    style = GRADE_STYLE[finding.grade]
    out.print(
        Text.assemble((f"{GRADE_MARK[finding.grade]} {words.title}", style), (f"  [{finding.id}]", "dim"))
    )
    if finding.location:
        out.print(Text(f"    {t('cli.finding.where')}: {finding.location}"))
    if words.seen:
        out.print(Text(f"    {words.seen}"))
    if words.why:
        out.print(Text(f"    {words.why}", style="dim"))
    for number, cause in enumerate(words.causes, 1):
        out.print(Text(f"    {number}. {cause}"))
    if words.next:
        out.print(Text.assemble((f"    → {t('cli.finding.next')}: ", "bold"), words.next))
    for example in finding.examples[:3]:
        out.print(Text(f"      {example}", style="dim"))


def human(number: float, unit: str = "") -> str:
    """A number for people: 12.3M, 1.2k, 25.3 GB; bytes in powers of 1,000. In C notation, as cells of `print_table` are; sentences say `amount`."""
    gap = " " if unit[:1].isalpha() else ""
    for factor, mark in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= factor:
            return f"{number / factor:.1f}{gap}{mark}{unit}"
    return f"{number:.0f}{gap}{unit}" if float(number).is_integer() else f"{number:.3g}{gap}{unit}"


def amount(number: float, unit: str = "") -> str:
    """`human` in the reader's notation: 25,3 GB in German."""
    return numerals(human(number, unit))


def duration(seconds: float) -> str:
    """Seconds for people: 45 s, 3:10 min, 2:05 h."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}:{rest:02d} min"
    return f"{minutes // 60}:{minutes % 60:02d} h"


class TerminalProgress:
    """The `Progress` protocol on stderr."""

    def __init__(self, *, every_s: float = 30.0) -> None:
        self._quiet = bool(os.environ.get("UMSICHT_QUIET"))
        self._live = sys.stderr.isatty() and not self._quiet
        self._console = Console(stderr=True, highlight=False, soft_wrap=not self._live)
        self._every_s = every_s
        self._bars: Progress | None = None
        self._task: TaskID | None = None
        self._name, self._unit, self._status = "", "", ""
        self._total: float | None = None
        self._done = 0.0
        self._began = self._printed = time.monotonic()

    def stage(self, name: str, total: float | None = None, unit: str = "") -> None:
        """Begin a stage."""
        self.close()
        self._name, self._total, self._unit, self._status, self._done = name, total, unit, "", 0.0
        self._began = self._printed = time.monotonic()
        if self._live:
            self._bars = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                TextColumn("{task.fields[status]}"),
                TimeRemainingColumn(compact=True),
                console=self._console,
                transient=True,
            )
            self._bars.start()
            self._task = self._bars.add_task(name, total=total, status="")

    def advance(self, n: float = 1, status: str = "") -> None:
        """`n` more units done."""
        self._done += n
        self._status = status or self._status
        if self._bars is not None and self._task is not None:
            self._bars.update(self._task, advance=n, status=self._line())
        elif not self._quiet and time.monotonic() - self._printed >= self._every_s:
            self._printed = time.monotonic()
            self._console.print(f"{self._name}: {self._line()}{self._eta()}")

    def _line(self) -> str:
        if not self._done:
            return self._status
        elapsed = max(time.monotonic() - self._began, 1e-9)
        if self._unit == "B":  # 754.6 kB, not 754.6k B
            unit, behind, per = "B", "", "B/s"
        else:
            unit, behind, per = "", self._unit, f" {self._unit}/s" if self._unit else "/s"
        of = f"/{human(self._total, unit)}" if self._total else ""
        far = f"{human(self._done, unit)}{of} {behind} {human(self._done / elapsed, per)}"
        far = localise(far, language())
        return f"{far} {self._status}".replace("  ", " ").rstrip()

    def _eta(self) -> str:
        if not self._total or self._done <= 0:
            return ""
        left = (time.monotonic() - self._began) / self._done * max(self._total - self._done, 0)
        return " " + t("cli.left", duration=duration(left))

    def note(self, text: str) -> None:
        """One line that stays."""
        if not self._quiet:
            self._console.print(text)

    def close(self) -> None:
        """End the current stage."""
        if self._bars is not None:
            self._bars.stop()
            self._bars = self._task = None
        if self._name and not self._quiet:
            took = time.monotonic() - self._began
            line = f"{self._line()} {t('cli.took', duration=duration(took))}".strip()
            self._console.print(f"{self._name}: {line}")
        self._name = ""
