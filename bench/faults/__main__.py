"""`make bench-faults`: plant every fault, loud and faint, and run healthy pipelines; see what the guards say.

Each case runs in a process forked from one that has torch loaded, so that a patch never outlives its case. Scored by (family, place) from
the table in `cases.py`.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

from bench.common import QUICK, ROOT, Bench
from bench.faults import base, healthy
from bench.faults.cases import ABSENT, CASES, Case
from umsicht.findings import UserError
from umsicht.guard import preflight
from umsicht.record.files import atomic_json

SHORT = (
    "TX1-faint",
    "TX6-faint",
    "TX12-faint",
    "DA1-faint",
    "DA10-faint",
    "TG1-loud",
    "TG6-loud",
    "TG11b-loud",
    "MO2-faint",
    "MO12-faint",
    "OP3-faint",
    "RE2-faint",
)
LIMIT_S = 240


def run_case(case: Case, folder: Path) -> dict[str, Any]:
    """Build the pipeline with the fault in it, check it, and say what was found."""
    base.single_thread()
    begun = time.monotonic()
    pipeline = base.begin(case.recipe(), folder)
    try:
        if case.text:
            case.text(pipeline)
        if case.code:
            case.code(pipeline)
        pipeline.make_tokens()
        if case.stored:
            case.stored(pipeline)
        pipeline.make_run()
        if case.run:
            case.run(pipeline)
        report = preflight(pipeline.inputs())
    except UserError as error:
        return {"named": [], "error": str(error)[:200], "seconds": time.monotonic() - begun}
    return {
        "named": [
            {"id": f.id, "grade": f.grade, "location": f.location, "stage": f.stage}
            for f in report
            if f.grade != "note"
        ],
        "seconds": time.monotonic() - begun,
    }


def forked(work: Any, *arguments: Any) -> dict[str, Any]:
    """Run `work` in a child and read its JSON answer; a child that dies or hangs is an answer too."""
    with tempfile.TemporaryDirectory(prefix="umsicht-fault-") as name:
        folder = Path(name)
        answer = folder / "answer.json"
        child = os.fork()
        if child == 0:
            try:
                sys.stdout = sys.stderr = (folder / "log").open("w")
                answer.write_text(json.dumps(work(*arguments, folder)))
                os._exit(0)
            except BaseException:
                answer.write_text(json.dumps({"named": [], "error": traceback.format_exc()[-600:]}))
                os._exit(1)
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            done, _ = os.waitpid(child, os.WNOHANG)
            if done:
                break
            time.sleep(0.05)
        else:
            os.kill(child, 9)
            os.waitpid(child, 0)
            return {"named": [], "error": "took too long"}
        found: dict[str, Any] = json.loads(answer.read_text())
        return found


def judge(case: Case, answer: dict[str, Any]) -> str:
    """named: the cause is of the right family in the right place; misnamed: something else stands first; missed: nothing was said."""
    named = answer["named"]
    if not named:
        return "missed"
    first = next((one for one in named if one["grade"] == "stop"), named[0])
    family, place = first["id"].partition("/")[0], first["location"].partition(":")[0]
    return "named" if family in case.families and place in case.places else "misnamed"


def main() -> None:
    """All cases, or the short list."""
    wanted = sys.argv[1:]
    cases = [
        c
        for c in CASES
        if (c.name in SHORT if QUICK else True) and (not wanted or c.name in wanted or c.fault in wanted)
    ]
    bench = Bench(
        "faults",
        "Known faults planted in working pipelines made of the product's own stages, and what the guards call them before the long run.",
    )
    rows = []
    for case in cases:
        answer = forked(run_case, case)
        verdict = judge(case, answer)
        first = next(
            (one for one in answer["named"] if one["grade"] == "stop"),
            answer["named"][0] if answer["named"] else {"id": "—", "location": answer.get("error", "")[-80:]},
        )
        rows.append(
            {
                "fault": case.fault,
                "strength": case.strength,
                "expected": " ".join(case.families),
                "named": first["id"],
                "where": first["location"],
                "verdict": verdict,
                "moment": "before",
                "seconds": round(answer.get("seconds", 0.0), 1),
                "error": answer.get("error", ""),
            }
        )
        print(
            f"{case.name:14} {verdict:9} {first['id']:36} {first['location'][:60]:60} {answer.get('seconds', 0):6.1f} s  {answer.get('error', '')[-300:] if verdict == 'missed' else ''}",
            flush=True,
        )
        atomic_json(ROOT / "build" / "bench" / "faults-rows.json", rows)
    alarms = []
    names = list(healthy.HEALTHY)
    for name in names if not QUICK else names[:3]:
        if wanted:
            break
        answer = forked(healthy.run_healthy, name)
        alarms.append({"run": name, **answer})
        print(
            f"healthy {name:28} {'quiet' if not answer['named'] and not answer.get('error') else answer}",
            flush=True,
        )
    if wanted:
        sys.exit(any(row["verdict"] != "named" for row in rows))
    right = sum(row["verdict"] == "named" for row in rows)
    bench.figure(
        "faults named, family and place", right / max(1, len(rows)), ">= 0.95", note=f"n = {len(rows)}"
    )
    bench.figure(
        "faults named before the long run", right / max(1, len(rows)), ">= 0.85", note=f"n = {len(rows)}"
    )
    bench.figure("faults of the catalogue with rows here", len({row["fault"].rstrip("ab") for row in rows}))
    if alarms:
        bench.figure(
            "healthy runs with an alarm",
            sum(bool(a["named"] or a.get("error")) for a in alarms),
            "== 0",
            note=f"n = {len(alarms)}",
        )
        steps = sum(a.get("steps", 0) for a in alarms)
        loud = sum(len(a.get("alarms", [])) for a in alarms)
        bench.figure(
            "alarms per 1,000 monitored steps", 1000 * loud / max(1, steps), "<= 0.2", note=f"{steps} steps"
        )
    bench.section(table(rows, alarms))
    bench.extra.update(rows=rows, healthy=alarms, absent=ABSENT)
    bench.finish()


def table(rows: list[dict[str, Any]], alarms: list[dict[str, Any]]) -> str:
    """The page's tables: faults with misses shown, healthy runs, and what has no row yet."""
    lines = [
        "| fault | strength | expected family | named | where | verdict | s |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r['fault']} | {r['strength']} | {r['expected']} | {r['named']} | {r['where']} | {r['verdict']} | {r['seconds']} |"
        for r in rows
    ]
    if alarms:
        lines += ["", "| healthy run | findings | steps | alarms |", "|---|---|---|---|"]
        lines += [
            f"| {a['run']} | {', '.join(f['id'] for f in a['named']) or '—'} | {a.get('steps', 0)} | {len(a.get('alarms', []))} |"
            for a in alarms
        ]
    lines += [
        "",
        "| fault without a row | reason |",
        "|---|---|",
        *(f"| {key} | {reason} |" for key, reason in ABSENT.items()),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
