"""The comparisons that the benches left behind, told for people: against whom, on what, with which result and spread."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.common import Figure


@dataclass(frozen=True)
class Part:
    """One bench and the peers that it compares with."""

    bench: str
    what: str
    peers: tuple[str, ...]
    folder: str = ""
    """Variable that names a folder, for repositories that no package index carries."""


PARTS = (
    Part("corpus", "near-duplicate removal, processor time", ("daft", "rensa", "datasketch", "datatrove")),
    Part("train", "training step, processor time", ("transformers", "litgpt")),
    Part("train", "training step, processor time", ("nanogpt",), "NANOGPT_DIR"),
    Part("train_float32", "training step without bfloat16, processor time", ("transformers", "litgpt")),
    Part("train_float32", "training step without bfloat16, processor time", ("nanogpt",), "NANOGPT_DIR"),
    Part("quality", "bits per byte for equal processor time", ("litgpt", "transformers")),
    Part("quality", "bits per byte for equal processor time", ("nanogpt",), "NANOGPT_DIR"),
    Part("quality", "bits per byte for equal processor time", ("nanochat",), "NANOCHAT_DIR"),
    Part("dashboard_trackio", "opening a run in the browser", ("trackio",)),
)
QUALITY = re.compile(r"(?P<budget>[^:]+): \w+'s bits per byte - (?P<ours>[\w-]+)'s at (?P<share>\S+) of its")


@dataclass(frozen=True)
class Row:
    """One comparison. `value` None: not measured; a ratio says how many times better ours is, a difference how many bits per byte."""

    part: Part
    peer: str
    figure: Figure

    @property
    def value(self) -> float | None:
        return self.figure.value

    @property
    def is_difference(self) -> bool:
        return QUALITY.match(self.figure.name) is not None

    @property
    def is_lost(self) -> bool:
        """Measured, and short of its bar or behind the peer."""
        even = 0.0 if self.is_difference else 1.0
        return self.value is not None and (self.figure.verdict == "MISSED" or self.value < even)

    @property
    def budget(self) -> str:
        """The budget of a comparison of quality, else nothing."""
        found = QUALITY.match(self.figure.name)
        return found["budget"] if found else ""

    @property
    def what(self) -> str:
        """What was compared, without the peer's name."""
        if found := QUALITY.match(self.figure.name):
            share = float(found["share"])
            return f"{found['budget']} of training: {found['ours']} in {share:.0%} of its time"
        name = rf"times faster than {self.peer}|ours(?:, (eager))? / {self.peer}|{self.peer}"
        rest = re.split(r",\s+", re.sub(name, r"\1", self.figure.name))
        return ", ".join([self.part.what, *(word.strip() for word in rest if word.strip())])

    @property
    def result(self) -> str:
        """The value as people read it."""
        if self.value is None:
            return "—"
        return f"{self.value:+.3f} bits per byte" if self.is_difference else f"{self.value:.3g} times"

    @property
    def bar(self) -> str:
        """The target in the result's terms."""
        return self.figure.target.replace(">= ", "at least ") or "—"

    @property
    def spread(self) -> str:
        """The note without absolute rates: they say more about the hour than about the programs."""
        parts = [part.strip() for part in self.figure.note.split(";")]
        return "; ".join(part for part in parts if "a processor second" not in part and "MB/s" not in part)


def from_page(path: Path) -> dict[str, Any] | None:
    """The figures of a committed page, rounded as it shows them; None where there is no such page, or it tells no table of figures."""
    if not path.is_file():
        return None
    text = path.read_text(encoding="utf-8")
    figures = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if len(cells) != 5 or cells[3].strip() not in ("ok", "info", "MISSED", "not measured"):
            continue
        name, value, target, _, note = cells
        number, _, unit = value.partition(" ")
        figures.append(
            {
                "name": name,
                "value": None if number == "—" else float(number.replace(",", "")),
                "target": "" if target == "—" else target,
                "unit": unit,
                "note": note.strip("| "),
            }
        )
    date = re.search(r"^Made by .* on (\d{4}-\d\d-\d\d)", text, re.MULTILINE)
    return {"figures": figures, "made": date[1] if date else "", "page": True} if figures else None


def rows_of(part: Part, found: dict[str, Any] | None) -> list[Row]:
    """The comparisons of a part; a peer without one gets a row that says so."""
    rows = []
    for peer in part.peers:
        named = [one for one in (found or {}).get("figures", []) if peer in one["name"].lower()]
        rows += [
            Row(part, peer, Figure(*(one[key] for key in ("name", "value", "target", "unit", "note"))))
            for one in named
        ]
        if not named:
            rows.append(Row(part, peer, Figure(f"{peer}: {part.what}", None)))
    return rows


def best_first(rows: list[Row]) -> list[Row]:
    """Ratios before differences, the greatest first."""
    return sorted(rows, key=lambda row: (row.is_difference, -(row.value or 0.0)))
