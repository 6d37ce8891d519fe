"""`make bench-survival`: twenty faults on real jobs; what each cost, beside what it may cost.

`python -m bench.survival` goes through the rows that this code has not made yet and keeps each as it comes, so that what was interrupted continues
with the same command; once all are there it writes the page. `--again` makes all of them anew. `python -m bench.survival 1 5` makes these rows,
whether or not they are there. `--page` writes the page from the rows kept and says by how many states of the code they were made.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
import traceback
from pathlib import Path

from bench.common import QUICK, ROOT, Bench
from bench.survival.kept import Row, code_digest, rows
from bench.survival.registry import Scenario, SkippedError, all_scenarios
from bench.survival.subject import Subjects

SHORT = (1, 4, 9, 16)
"""The rows of a shortened run; `make test` runs these four as tests."""
ABOUT = """Twenty faults on real jobs: processes of `umsicht train --nproc-per-node`, hurt by real signals, full disks, flipped bits and cut
networks. K = 5 steps between checkpoints. Losses and weights are compared with those of an unbroken run, to the last bit where the number of ranks is
the same. The number before a figure is that of its fault."""


def main() -> None:
    """Make the rows asked for, or those that are lacking; write the page where all are there."""
    words = sys.argv[1:]
    known = {one.number: one for one in all_scenarios()}
    wanted = [int(word) for word in words if word.isdigit()]
    if "--page" not in words:
        made = set() if wanted or QUICK or "--again" in words else made_before(known)
        asked = wanted or (list(SHORT) if QUICK else list(known))
        for number in sorted(made):
            print(f"— {number} {known[number].title}: made by this code before, kept")
        whole = make([known[number] for number in asked if number not in made])
        if wanted or QUICK:
            sys.exit(0 if whole else 1)
    compose(known)


def made_before(known: dict[int, Scenario]) -> set[int]:
    """Numbers of the rows that the present code has made."""
    return {n for n, row in rows().items() if n in known and row.code == code_digest(known[n].room)}


def make(scenarios: list[Scenario]) -> bool:
    """Act the scenarios and keep their rows; True where every figure is met."""
    given = os.environ.get("UMSICHT_SURVIVAL_FOLDER", "")
    folder = Path(given) if given else ROOT / "build" / "survival" / code_digest()
    folder.mkdir(parents=True, exist_ok=True)
    subjects, met = Subjects(folder), True
    for one in scenarios:
        row = act(one, subjects)
        row.keep()
        met &= all(figure.verdict in ("ok", "info") for figure in row.figures)
    if not given:
        shutil.rmtree(folder, ignore_errors=True)
    return met


def act(one: Scenario, subjects: Subjects) -> Row:
    """One scenario; what it cannot do here is a line that says why, and no figure that looks met."""
    print(f"— {one.number} {one.title}", flush=True)
    began, bench = time.monotonic(), Bench("survival", ABOUT)
    try:
        for name, value, target in one.act(subjects):
            bench.figure(f"{one.number} {name}", float(value), target)
    except SkippedError as reason:
        bench.figure(f"{one.number} {one.title}", None, note=f"skipped: {reason}")
    except Exception as error:  # one scenario that breaks must not hide the others
        note = (str(error) or repr(error)).splitlines()[0]
        bench.figure(f"{one.number} came to its end", 0, "== 1", note=note)
        traceback.print_exc()
    seconds = time.monotonic() - began
    print(f"  ({seconds:.0f} s)", flush=True)
    return Row(one.number, one.title, code_digest(one.room), bench.figures, seconds)


def compose(known: dict[int, Scenario]) -> None:
    """Figures and page from the rows kept."""
    kept, bench = rows(), Bench("survival", ABOUT)
    for number in sorted(kept):
        for figure in kept[number].figures:
            bench.figure(figure.name, figure.value, figure.target, unit=figure.unit, note=figure.note)
    bench.figure("rows that are lacking", len(set(known) - set(kept)), "== 0")
    bench.figure("whole table, minutes", sum(row.seconds for row in kept.values()) / 60, "<= 25")
    older = sorted(set(kept) - made_before(known))
    if older:
        named = ", ".join(str(number) for number in older)
        bench.section(
            f"Rows made by an earlier state of the code: {named}. `make bench-survival` makes them anew."
        )
    table = [f"| {n} | {kept[n].title} | {kept[n].seconds:.0f} |" for n in sorted(kept)]
    bench.section("\n".join(["| # | fault | s |", "|---|---|---|", *table]))
    bench.finish()


if __name__ == "__main__":
    main()
