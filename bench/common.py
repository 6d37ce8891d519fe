"""What every bench shares: one line a figure, the same as JSON, a page under docs/measured, and an exit code that cannot flatter."""

from __future__ import annotations

import operator
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from umsicht.record.environment import code_version, environment, hardware
from umsicht.record.files import atomic_json, atomic_write

ROOT = Path(__file__).resolve().parent.parent
QUICK = os.environ.get("BENCH_QUICK") == "1"
_TESTS: dict[str, Callable[[float, float], bool]] = {"<=": operator.le, ">=": operator.ge, "==": operator.eq}


def data_folder() -> Path | None:
    """The folder of test data named by `UMSICHT_TEST_DATA`, or None."""
    value = os.environ.get("UMSICHT_TEST_DATA", "")
    return Path(value) if value and Path(value).is_dir() else None


@dataclass
class Figure:
    """One measured number. `target` is like ">= 0.95"; an information line has none; a value of None means not measured here."""

    name: str
    value: float | None
    target: str = ""
    unit: str = ""
    note: str = ""

    @property
    def verdict(self) -> str:
        """`ok`, `MISSED`, `not measured`, or `info`."""
        if self.value is None:
            return "not measured"
        if not self.target:
            return "info"
        sign, _, bound = self.target.partition(" ")
        return "ok" if _TESTS[sign](self.value, float(bound)) else "MISSED"

    def shown(self) -> str:
        """The value with its unit."""
        return "—" if self.value is None else f"{self.value:.4g}{' ' + self.unit if self.unit else ''}"


@dataclass
class Bench:
    """Collects the figures of one bench, prints them as they come, and ends the process with the right code."""

    name: str
    about: str
    figures: list[Figure] = field(default_factory=list)
    sections: list[str] = field(default_factory=list)
    table: bool = True
    """Whether the page begins with the table of all figures; False where its sections say them."""
    extra: dict[str, Any] = field(default_factory=dict)
    page: str = ""
    """What page and JSON are called where not as the bench: one bench may be measured on two kinds of machines."""

    def figure(
        self, name: str, value: float | None, target: str = "", *, unit: str = "", note: str = ""
    ) -> Figure:
        """Record and print one figure."""
        made = Figure(name, None if value is None else float(value), target, unit, note)
        self.figures.append(made)
        print(f"{name:<58} {made.shown():>16} {target:>12}  {made.verdict}  {note}".rstrip(), flush=True)
        return made

    def section(self, markdown: str) -> None:
        """Text or a table for the page."""
        self.sections.append(markdown)

    def finish(self) -> NoReturn:
        """Write JSON and page; exit 0 only where every figure with a target was measured and met."""
        met = all(figure.verdict in ("ok", "info") for figure in self.figures)
        atomic_json(
            ROOT / "build" / "bench" / f"{self.page or self.name}.json",
            {
                "name": self.name,
                "quick": QUICK,
                "met": met,
                "figures": [{**vars(figure), "verdict": figure.verdict} for figure in self.figures],
                "code": code_version(),
                "environment": environment(),
                "hardware": hardware(),
                **self.extra,
            },
        )
        page = ROOT / "docs" / "measured" / f"{self.page or self.name}.md"
        if QUICK:
            print(f"BENCH_QUICK=1: a shortened run, {page.name} is left as it is.")
        else:
            atomic_write(page, self._page(met))
        print("all figures met" if met else "figures MISSED or not measured; see above")
        sys.exit(0 if met else 1)

    def _page(self, met: bool) -> str:
        lines = [
            f"# Measured: {self.page or self.name}",
            "",
            self.about,
            "",
            self._made_by(met),
            *(self._table() if self.table else []),
        ]
        for section in self.sections:
            lines += ["", section]
        return "\n".join(lines) + "\n"

    def _table(self) -> list[str]:
        return [
            "",
            "| figure | value | target | verdict | note |",
            "|---|---|---|---|---|",
            *(
                f"| {figure.name} | {figure.shown()} | {figure.target or '—'} | {figure.verdict} | {figure.note} |"
                for figure in self.figures
            ),
        ]

    def _made_by(self, met: bool) -> str:
        machine = hardware()
        features = " ".join(machine["cpu_features"]) or "no vector extensions reported"
        torch = environment()["libraries"].get("torch", "—")
        verdict = "Every figure is met." if met else "Not every figure is met: the misses are shown."
        return (
            f"Made by `make bench-{self.name.replace('_', '-')}` on {datetime.now(UTC):%Y-%m-%d}; {machine['cpu']}, "
            f"{machine['cores']} cores ({features}), Python {platform.python_version()}, torch {torch}. {verdict}"
        )
