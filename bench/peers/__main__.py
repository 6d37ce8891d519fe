"""`make bench-peers`: every measured comparison with other people's programs on one page: ratios with their spread, and where we lose.

    python -m bench.peers            # uses what bench-corpus, bench-train, bench-quality and bench-dashboard left in build/bench, runs what is missing
    python -m bench.peers --again    # runs them all anew
    python -m bench.peers --collect  # runs nothing: what is missing is shown as not measured

Only ratios and differences taken inside one run are shown, never a single absolute time: machines are shared. A comparison that was shortened
(BENCH_QUICK=1) or made by other code than this is said to be.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.common import ROOT, Bench
from umsicht.record.environment import code_version

RESULTS = ROOT / "build" / "bench"


@dataclass(frozen=True)
class Part:
    """One bench and the peers that it compares with."""

    bench: str
    what: str
    peers: tuple[str, ...]
    folder: str = ""
    """Variable that names a folder, for repositories that no package index carries."""


PARTS = (
    Part(
        "corpus",
        "near-duplicate removal, MB a processor second",
        ("daft", "rensa", "datasketch", "datatrove"),
    ),
    Part("train", "training step, tokens a processor second", ("transformers", "litgpt")),
    Part("train", "training step, tokens a processor second", ("nanogpt",), "NANOGPT_DIR"),
    Part("quality", "bits per byte at equal compute", ("litgpt", "transformers")),
    Part("quality", "bits per byte at equal compute", ("nanogpt",), "NANOGPT_DIR"),
    Part("quality", "bits per byte at equal compute", ("nanochat",), "NANOCHAT_DIR"),
    Part("dashboard", "first chart of 100,000 steps", ("trackio",)),
)


@dataclass(frozen=True)
class Row:
    """One comparison. `value` None: not measured."""

    part: Part
    peer: str
    name: str
    value: float | None
    target: str
    note: str
    state: str = ""


def result(name: str, *, again: bool, collect: bool) -> dict[str, Any] | None:
    """What a bench left behind; made first where it is missing."""
    path = RESULTS / f"{name}.json"
    if not collect and (again or not path.is_file()):
        print(f"running bench-{name} …", flush=True)
        subprocess.run(
            [sys.executable, "-m", f"bench.{name}"], cwd=ROOT, stdout=subprocess.DEVNULL, check=False
        )
    if not path.is_file():
        return None
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def rows_of(part: Part, found: dict[str, Any] | None) -> list[Row]:
    """The comparisons of a part; a peer without one gets a row that says so."""
    rows = []
    for peer in part.peers:
        named = [one for one in (found or {}).get("figures", []) if peer in one["name"].lower()]
        for one in named:
            note = _without_rates(one.get("note", ""))
            rows.append(Row(part, peer, one["name"], one["value"], one["target"], note, _state(found)))
        if not named:
            why = (
                f"set {part.folder} to its folder"
                if part.folder
                else f"bench-{part.bench} has no figure for it"
            )
            rows.append(Row(part, peer, f"{peer}: {part.what}", None, "", why))
    return rows


def _without_rates(note: str) -> str:
    """A note without absolute rates: they say more about the hour than about the programs."""
    parts = [part.strip() for part in note.split(";")]
    return "; ".join(part for part in parts if "a processor second" not in part and "MB/s" not in part)


def _state(found: dict[str, Any] | None) -> str:
    if found is None:
        return ""
    said = ["shortened run"] if found.get("quick") else []
    if found.get("code", {}).get("git_commit") != code_version()["git_commit"]:
        said.append("measured with other code than this")
    return ", ".join(said)


def losses(rows: list[Row], bench: Bench) -> str:
    """Comparisons that miss their target, or in which the peer is ahead."""
    lost = [
        f"- {figure.name}: {figure.shown()}{f' for a target of {figure.target}' if figure.target else ''}"
        for figure, row in zip(bench.figures, rows, strict=True)
        if row.value is not None and (figure.verdict == "MISSED" or (not row.target and row.value < 1))
    ]
    unknown = [f"- {row.name}: {row.note}" for row in rows if row.value is None]
    return "\n".join(
        [
            "## Where we lose",
            "",
            *(lost or ["Nowhere among what was measured."]),
            "",
            "## Not measured here",
            "",
            *(unknown or ["Nothing."]),
        ]
    )


def main() -> None:
    """Collect, judge, write the page."""
    bench = Bench(
        "peers",
        "Our programs against other people's on the same work, each in an environment of its own, in turn.",
    )
    known: dict[str, dict[str, Any] | None] = {}
    rows: list[Row] = []
    for part in PARTS:
        if part.bench not in known:
            known[part.bench] = result(
                part.bench, again="--again" in sys.argv, collect="--collect" in sys.argv
            )
        rows += rows_of(part, known[part.bench])
    for row in rows:
        note = "; ".join(text for text in (row.note, row.state) if text)
        bench.figure(
            f"{row.part.bench}: {row.name}", row.value, row.target if row.value is not None else "", note=note
        )
    bench.section(losses(rows, bench))
    bench.section(how(known))
    bench.finish()


def how(known: dict[str, dict[str, Any] | None]) -> str:
    """Which bench each comparison comes from, with its own page."""
    lines = ["## Where the figures come from", ""]
    for name, found in known.items():
        page = Path(ROOT / "docs" / "measured" / f"{name}.md")
        link = f"[{name}]({page.name})" if page.is_file() else name
        lines.append(f"- `make bench-{name}` → {link}" + ("" if found else " (did not run here)"))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
