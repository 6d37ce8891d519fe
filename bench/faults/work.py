"""What a child of the bench does: build a pipeline with a fault in it, let the guards look, say what they named."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bench.faults import base, watched
from bench.faults.case import Case
from umsicht.findings import Finding, UserError
from umsicht.guard import check, preflight


def said(finding: Finding) -> str:
    """What a probe that fell over says of it; nothing for others."""
    return str(dict(finding.numbers)) if finding.id == "RECORD/probe-failed" else ""


def plain(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Findings as JSON, notes left out."""
    return [
        {"id": f.id, "grade": f.grade, "location": f.location, "stage": f.stage, "said": said(f)}
        for f in findings
        if f.grade != "note"
    ]


def run_case(case: Case, folder: Path) -> dict[str, Any]:
    """Plant, build, check, and train where the fault begins in the middle."""
    base.single_thread()
    begun = time.monotonic()
    try:
        if case.foreign is not None:
            found, moment = plain(check(**case.foreign())), "before"
        elif case.verb is not None:
            found, moment = plain(case.verb(folder)), "before"
        else:
            found, moment = _own(case, folder)
    except UserError as error:
        return {
            "named": [],
            "error": f"UserError: {error.what} {error.where}"[:300],
            "seconds": time.monotonic() - begun,
        }
    return {"named": found, "moment": moment, "seconds": time.monotonic() - begun}


def _own(case: Case, folder: Path) -> tuple[list[dict[str, Any]], str]:
    pipeline = base.begin(case.recipe(), folder)
    for plant in (case.text, case.code):
        if plant:
            plant(pipeline)
    pipeline.make_tokens()
    if case.stored:
        case.stored(pipeline)
    pipeline.make_run()
    if case.run:
        case.run(pipeline)
    found = plain(preflight(pipeline.inputs()))
    if case.during is None or any(one["grade"] == "stop" for one in found):
        return found, "before"
    case.during(pipeline)
    seen = watched.train(pipeline, folder, case.steps)
    late = [
        {"id": f["id"], "grade": f["grade"], "location": f["location"], "stage": f["stage"]}
        for f in seen["findings"]
        if f["grade"] != "note"
    ]
    return [*found, *late], "during"
