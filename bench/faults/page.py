"""The table of the fault bench: every row with its verdict, misses first, and what has no row yet."""

from __future__ import annotations

import re
from typing import Any

from bench.common import Bench

Rows = list[dict[str, Any]]
CATALOGUE = re.compile(r"(TX|DA|TG|MO|OP|RE|DI|EV|PT)[1-9][0-9]?(?<!PT5)")


def figures(bench: Bench, rows: Rows, quiet: Rows) -> None:
    """The bars of the bench."""
    broken = [row for row in rows if row["verdict"] == "not planted"]
    bench.figure("injections that could not be planted", len(broken), "== 0")
    n = max(1, len(rows))
    right = [row for row in rows if row["verdict"] == "named"]
    early = [row for row in right if row["moment"] == "before"]
    bench.figure("faults named, family and place", len(right) / n, ">= 0.95", note=f"{len(right)} of {n}")
    bench.figure("faults named before the long run", len(early) / n, ">= 0.85", note=f"{len(early)} of {n}")
    listed = [CATALOGUE.match(row["fault"]) for row in rows]
    bench.figure(
        "faults of the catalogue with rows here",
        len({found.group() for found in listed if found}),
        note="of 100",
    )
    beyond = [row for row, found in zip(rows, listed, strict=True) if found is None]
    if beyond:
        named = sum(row["verdict"] == "named" for row in beyond)
        bench.figure(
            "faults that no row of the catalogue describes, named",
            named / len(beyond),
            note=f"{named} of {len(beyond)}; planted by whoever wrote the checks",
        )
    bench.figure("seconds a case, median", sorted(row["seconds"] for row in rows)[n // 2], unit="s")
    if quiet:
        loud = [one for one in quiet if one["named"] or one.get("error")]
        bench.figure("healthy runs with an alarm", len(loud), "== 0", note=f"n = {len(quiet)}")
        steps = sum(one.get("steps", 0) for one in quiet)
        alarms = sum(len(one.get("alarms", [])) for one in quiet)
        bench.figure(
            "alarms per 1,000 monitored steps",
            1000 * alarms / max(1, steps),
            "<= 0.2",
            note=f"{alarms} in {steps} steps",
        )


def table(rows: Rows, quiet: Rows, absent: dict[str, str]) -> str:
    """Misses, all rows, healthy runs, and what has no row."""
    head = [
        "| fault | strength | expected family | named | where | verdict | moment | s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    wrong = [row for row in rows if row["verdict"] != "named"]
    lines = ["## Missed and misnamed", ""]
    lines += [*head, *map(_line, wrong)] if wrong else ["None in this run."]
    lines += ["", "## All rows", "", *head, *map(_line, rows)]
    if quiet:
        lines += ["", "## Healthy runs", "", "| run | findings | steps | alarms |", "|---|---|---|---|"]
        lines += [
            f"| {one['run']} | {', '.join(f['id'] for f in one['named']) or '—'} | {one.get('steps', 0)} | "
            f"{', '.join(one.get('alarms', [])) or '—'} |"
            for one in quiet
        ]
    lines += ["", "## Faults of the catalogue without a row here", "", "| fault | reason |", "|---|---|"]
    lines += [f"| {key} | {reason} |" for key, reason in absent.items()]
    return "\n".join(lines)


def _line(row: dict[str, Any]) -> str:
    where = row["where"].replace("|", "/")[:70]
    return (
        f"| {row['fault']} | {row['strength']} | {row['expected']} | {row['named']} | {where} | {row['verdict']} | "
        f"{row['moment']} | {row['seconds']} |"
    )
