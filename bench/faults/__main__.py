"""`make bench-faults`: plant every fault, loud and faint, and run healthy pipelines; see what the guards say.

`python -m bench.faults` runs everything; names of faults or cases run those alone; `--part 1/4` begins with a quarter and goes on with the others',
each row kept as it comes, so that what is interrupted continues with the same command and several processes may share the work;
`--page` makes the page from the rows kept and says by how many states of the code they were made.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bench.common import QUICK, ROOT, Bench
from bench.faults import healthy, page
from bench.faults.cases import ABSENT, CASES
from bench.faults.judge import judge, row_of
from bench.faults.server import Task, forked, serve
from bench.faults.work import run_case
from umsicht.record.files import atomic_json

__all__ = ["SHORT", "forked", "judge", "main", "run_case"]

KEPT = ROOT / "build" / "bench" / "faults"
SHORT_HEALTHY = ("seed 1", "byte level", "resumed")
SHORT = (
    "TX1-faint",
    "TX6-faint",
    "TX12-faint",
    "DA1-faint",
    "DA10-faint",
    "TG1-loud",
    "TG6-faint",
    "TG11b-loud",
    "MO2-faint",
    "MO12-faint",
    "OP3-faint",
    "RE2-faint",
)


def code_digest() -> str:
    """Hash of the guards and of this bench: rows of different code do not go on one page."""
    total = hashlib.sha256()
    for folder in (ROOT / "src" / "umsicht" / "guard", ROOT / "bench" / "faults"):
        for path in sorted(folder.rglob("*.py")):
            total.update(path.read_bytes())
    return total.hexdigest()[:12]


def chosen(names: list[str]) -> tuple[list[Task], list[Task]]:
    """(faults, healthy runs) asked for; all of them where nothing is named."""
    faults: list[Task] = [
        (one.name, run_case, (one,))
        for one in CASES
        if (one.name in SHORT if QUICK and not names else True)
        and (not names or one.name in names or one.fault in names)
    ]
    runs = SHORT_HEALTHY if QUICK else (*healthy.HEALTHY, *healthy.LOOPS)
    quiet: list[Task] = [
        (f"healthy {name}", healthy.run_loop if name in healthy.LOOPS else healthy.run_healthy, (name,))
        for name in runs
        if not names or name in names or "healthy" in names
    ]
    return faults, quiet


def keep(name: str, row: dict[str, Any]) -> None:
    """A row on disk, with the code that made it."""
    atomic_json(KEPT / f"{name.replace(' ', '_')}.json", {"name": name, "code": code_digest(), **row})


def run(tasks: Iterable[Task], jobs: int) -> bool:
    """Run tasks, print a line each, keep the rows; True where every fault was named and every healthy run quiet."""
    by_name = {one.name: one for one in CASES}
    right = True
    for name, answer in serve(tasks, jobs):
        if name in by_name:
            row = row_of(by_name[name], answer)
            right &= row["verdict"] == "named"
            print(
                f"{name:14} {row['verdict']:9} {row['named']:36} {row['where'][:60]:60} {row['seconds']:6.1f} s {row['moment']}",
                flush=True,
            )
            if row["verdict"] != "named":
                print(f"    {row['all'][:4]} {row['error'][-500:]}", flush=True)
        else:
            row = {"run": name.removeprefix("healthy "), **answer}
            calm = not (answer["named"] or answer.get("alarms") or answer.get("error"))
            right &= calm
            print(f"{name:40} {'quiet' if calm else 'ALARM'} {answer.get('seconds', 0):6.1f} s", flush=True)
            if not calm:
                print(f"    {answer}", flush=True)
        keep(name, row)
    return right


def kept_rows(code: str = "") -> dict[str, dict[str, Any]]:
    """The newest row of each case on disk, by name; with `code`, only rows that this very code made."""
    kept = [json.loads(path.read_text()) for path in sorted(KEPT.glob("*.json"))]
    return {one["name"]: one for one in kept if code in ("", one["code"])}


def in_order(tasks: list[Task]) -> list[Task]:
    """What is worth most first, where there may not be time for all: unsettled faults with healthy runs among them, then settled ones."""
    done, known = kept_rows(code_digest()), kept_rows()
    open_tasks = [task for task in tasks if task[0] not in done]
    quiet = [task for task in open_tasks if task[0].startswith("healthy ")]
    settled = [task for task in open_tasks if known.get(task[0], {}).get("verdict") == "named"]
    unsettled = [task for task in open_tasks if task not in quiet and task not in settled]
    mixed: list[Task] = []
    for index, task in enumerate(unsettled):
        mixed.append(task)
        if index % 3 == 2 and quiet:
            mixed.append(quiet.pop(0))
    return [*mixed, *quiet, *settled]


def still_open(tasks: list[Task]) -> Iterator[Task]:
    """Tasks whose row nobody has made by the time their turn comes: several processes may share the work."""
    code = code_digest()
    for task in tasks:
        if task[0] not in kept_rows(code):
            yield task


def compose() -> None:
    """Figures and page from the rows kept."""
    fresh = kept_rows()
    faults, quiet = chosen([])
    lacking = [name for name, _, _ in (*faults, *quiet) if name not in fresh]
    bench = Bench(
        "faults",
        "Known faults planted in working pipelines made of the product's own stages, loud and faint, and what the guards call them. "
        "`before`: named by the contracts before the long run; `during`: named by a monitor.",
    )
    if lacking:
        print(f"{len(lacking)} rows are lacking: {', '.join(lacking[:8])} …")
    rows = [fresh[name] for name, _, _ in faults if name in fresh]
    runs = [fresh[name] for name, _, _ in quiet if name in fresh]
    page.figures(bench, rows, runs)
    bench.figure("cases without a row", len(lacking), "== 0")
    states = Counter(one["code"] for one in (*rows, *runs))
    bench.figure("states of guards and bench that made these rows", len(states))
    if len(states) > 1:
        made = ", ".join(f"{state}: {count}" for state, count in states.most_common())
        bench.section(
            f"The rows were made in parts, between which the code changed ({made} rows; the newest of each case counts). "
            "A run in one piece makes them anew: `make bench-faults`."
        )
    bench.section(page.table(rows, runs, ABSENT))
    bench.extra.update(rows=rows, healthy=runs, absent=ABSENT, guards=code_digest())
    bench.finish()


def main() -> None:
    """All cases, some, a part, or the page."""
    parser = argparse.ArgumentParser(prog="python -m bench.faults", description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--part", default="")
    parser.add_argument("--page", action="store_true")
    wanted = parser.parse_args()
    KEPT.mkdir(parents=True, exist_ok=True)
    if wanted.page:
        compose()
    faults, quiet = chosen(wanted.names)
    tasks = [*faults, *quiet]
    if wanted.part:
        number, count = (int(value) for value in wanted.part.split("/"))
        mine = tasks[number - 1 :: count]
        others = [task for task in tasks if task not in mine]
        run(still_open([*in_order(mine), *in_order(others)]), wanted.jobs)
        return
    if wanted.names:
        sys.exit(not run(tasks, wanted.jobs))
    shutil.rmtree(KEPT, ignore_errors=True)
    Path(KEPT).mkdir(parents=True)
    run(tasks, wanted.jobs)
    compose()


if __name__ == "__main__":
    main()
