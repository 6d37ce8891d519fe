"""The commands that README and the documentation show, read out of their fenced blocks."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    ROOT / "README.md",
    ROOT / "README.de.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
)
PROGRAMS = ("umsicht", "python", "make", "pip", "docker")
FENCE = re.compile(r"^ *```(?P<kind>[a-z]*)\n(?P<body>.*?)^ *```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Shown:
    """A command as a page shows it."""

    page: str
    line: str

    @property
    def words(self) -> list[str]:
        """The command's words, without the comment or the explanation behind it."""
        bare = re.split(r"\s{2,}(?=[a-zäöü…(])|\s+#\s", self.line)[0]
        return shlex.split(bare.replace("…", ""))


def commands() -> list[Shown]:
    """Every command, once, at the first page that shows it."""
    seen: dict[str, Shown] = {}
    for page in PAGES:
        for block in FENCE.finditer(page.read_text(encoding="utf-8")):
            if block["kind"] not in ("", "sh", "bash", "console"):
                continue
            for line in block["body"].splitlines():
                text = line.strip().removeprefix("$ ")
                if text.partition(" ")[0] in PROGRAMS:
                    shown = Shown(page.relative_to(ROOT).as_posix(), text)
                    seen.setdefault(" ".join(shown.words), shown)
    return list(seen.values())
