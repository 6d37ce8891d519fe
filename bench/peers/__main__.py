"""`make bench-peers`: every measured comparison with other people's programs on one page: ratios with their spread, and where we lose.

    python -m bench.peers            # uses what bench-corpus, bench-train, bench-quality and bench-dashboard-trackio left in build/bench, runs what is missing
    python -m bench.peers --again    # runs them all anew
    python -m bench.peers --collect  # runs nothing: what is missing is read from its committed page

Only ratios and differences taken inside one run are shown, never a single absolute time: machines are shared. A comparison that was shortened
(BENCH_QUICK=1) or made by other code than this is said to be.
"""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

from bench.common import ROOT, Bench
from bench.peers.rows import PARTS, Row, best_first, from_page, rows_of
from umsicht.record.environment import code_version

RESULTS = ROOT / "build" / "bench"
Found = dict[str, Any]


def module(name: str) -> str:
    """The bench that makes a page: `bench-train` writes one on machines that multiply bfloat16 fast, and another on those that do not."""
    return name.removesuffix("_float32")


def target(name: str) -> str:
    """A bench as the Makefile calls it."""
    return f"bench-{module(name).replace('_', '-')}"


def result(name: str, *, again: bool, collect: bool) -> Found | None:
    """What a bench left behind; made first where it is missing. What cannot be made here is read from its page."""
    path = RESULTS / f"{name}.json"
    is_made_here = name == module(name)
    if not collect and is_made_here and (again or not path.is_file()):
        print(f"running {target(name)} …", flush=True)
        subprocess.run(
            [sys.executable, "-m", f"bench.{name}"], cwd=ROOT, stdout=subprocess.DEVNULL, check=False
        )
    if not path.is_file():
        return from_page(ROOT / "docs" / "measured" / f"{name}.md")
    loaded: Found = json.loads(path.read_text(encoding="utf-8"))
    made = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    return {**loaded, "made": f"{made:%Y-%m-%d}"}


def compared(title: str, rows: list[Row], none: str) -> str:
    """A table of measured comparisons."""
    lines = [
        f"| {row.peer} | {row.what} | {row.result} | {row.bar} | {row.spread} |" for row in best_first(rows)
    ]
    head = ["| against | what | ours is better by | bar | spread and conditions |", "|---|---|---|---|---|"]
    return "\n".join([f"## {title}", "", *([*head, *lines] if lines else [none])])


def gaps(rows: list[Row]) -> dict[str, tuple[str, list[str]]]:
    """What was not measured, each thing once: for a name, what it needs and the peers or benches it touches."""
    found: dict[str, tuple[str, list[str]]] = {}
    for row in rows:
        if row.value is not None:
            continue
        if row.part.folder and "seeds run" not in row.spread:
            name, needs = row.peer, f"`{row.part.folder}` names a folder with its repository"
            touched = target(row.part.bench)
        elif row.budget:
            name = f"quality after {row.budget}"
            needs, touched = f'`QUALITY_BUDGETS="{row.budget}" make bench-quality`', row.peer
        else:
            name, touched = row.part.what, row.peer
            needs = row.spread or f"`make {target(row.part.bench)}`"
        entry = found.setdefault(name, (needs, []))
        if touched not in entry[1]:
            entry[1].append(touched)
    return found


def unknown(missing: dict[str, tuple[str, list[str]]]) -> str:
    """The list of gaps."""
    lines = [f"- {name} ({', '.join(touched)}): {needs}" for name, (needs, touched) in missing.items()]
    return "\n".join(["## Not measured here, and what it needs", "", *(lines or ["Nothing."])])


def sources(known: dict[str, Found | None]) -> str:
    """Which bench each comparison comes from, when and with which code."""
    lines = ["## Where the figures come from", ""]
    for name, found in known.items():
        page = ROOT / "docs" / "measured" / f"{name}.md"
        link = f"[{name}]({page.name})" if page.is_file() else name
        lines.append(f"- `make {target(name)}` → {link}{_state(found)}")
    return "\n".join(lines)


def _state(found: Found | None) -> str:
    if found is None:
        return ": did not run here"
    said = [found["made"]] if found.get("made") else []
    if found.get("quick"):
        said.append("shortened run")
    if found.get("page"):
        return f": {', '.join([*said, 'read from its page'])}"
    commit = found.get("code", {}).get("git_commit") or ""
    if commit != code_version()["git_commit"]:
        said.append(f"measured with other code than this ({commit[:7] or 'unknown'})")
    return f": {', '.join(said)}" if said else ""


def main() -> None:
    """Collect, judge, write the page."""
    bench = Bench(
        "peers",
        "Our programs against other people's on the same work, each in an environment of its own, in turn; best first.",
        table=False,
    )
    known: dict[str, Found | None] = {}
    rows: list[Row] = []
    for part in PARTS:
        if part.bench not in known:
            known[part.bench] = result(
                part.bench, again="--again" in sys.argv, collect="--collect" in sys.argv
            )
        rows += rows_of(part, known[part.bench])
    tell(bench, rows)
    bench.section(sources(known))
    bench.finish()


def tell(bench: Bench, rows: list[Row]) -> None:
    """Figures for the exit code, sections for people."""
    measured = [row for row in rows if row.value is not None]
    missing = gaps(rows)
    for row in best_first(measured):
        bench.figure(f"{row.peer}: {row.what}", row.value, row.figure.target, note=row.spread)
    for name, (needs, touched) in missing.items():
        bench.figure(f"{name} ({', '.join(touched)})", None, note=needs)
    won = [row for row in measured if not row.is_lost]
    lost = [row for row in measured if row.is_lost]
    bench.section(compared("Where we are ahead", won, "Nowhere among what was measured."))
    bench.section(
        compared("Where we lose, or fall short of the bar", lost, "Nowhere among what was measured.")
    )
    bench.section(unknown(missing))


if __name__ == "__main__":
    main()
