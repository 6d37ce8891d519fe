"""Rows kept as they come, so that a table that was interrupted goes on where it was."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

from bench.common import ROOT, Figure
from umsicht.record.files import atomic_json

KEPT = ROOT / "build" / "bench" / "survival"
ROOMS = (
    "record",
    "findings",
    "survive",
    "recipe",
    "tokens",
    "model",
    "score",
    "train",
    "guard",
    "pipeline",
)
"""Packages that a rank and its launcher run through."""


@dataclass
class Row:
    """What one scenario showed, the code that it showed it of, and how long it took."""

    number: int
    title: str
    code: str
    figures: list[Figure] = field(default_factory=list)
    seconds: float = 0.0

    def keep(self) -> None:
        """On disk, in place of an older row."""
        atomic_json(KEPT / f"{self.number:02d}.json", asdict(self))


@cache
def code_digest(room: str = "kills") -> str:
    """Hash of the code that ranks run through and of this bench, as far as scenarios of `room` use it (a file of `scenarios/`)."""
    total = hashlib.sha256()
    source, here = ROOT / "src" / "umsicht", Path(__file__).parent
    paths = [path for name in ROOMS for path in sorted((source / name).rglob("*.py"))]
    paths += [source / "cli" / "train.py", *sorted(here.glob("*.py"))]
    paths += [here / "scenarios" / f"{name}.py" for name in ("kills", room)]
    for path in paths:
        total.update(path.read_bytes())
    return total.hexdigest()[:12]


def rows() -> dict[int, Row]:
    """The rows on disk, by number."""
    found = {}
    for path in sorted(KEPT.glob("*.json")):
        plain = json.loads(path.read_text())
        figures = [Figure(**figure) for figure in plain.pop("figures")]
        found[plain["number"]] = Row(**plain, figures=figures)
    return found
