"""Verdicts by table: the cause's family and place against the case's; never by opinion."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

from bench.faults.case import Case

NOBODY = {"id": "—", "location": "", "grade": ""}


def first_of(answer: dict[str, Any]) -> dict[str, Any]:
    """What stands as the cause: the first finding that stops, else the first."""
    named: list[dict[str, Any]] = answer["named"]
    return next((one for one in named if one["grade"] == "stop"), named[0] if named else NOBODY)


def judge(case: Case, answer: dict[str, Any]) -> str:
    """named: the cause is of the right family in the right place; misnamed: something else stands first; missed: nothing was said."""
    if "LookupError" in answer.get("error", ""):
        return "not planted"
    if not answer["named"]:
        return "missed"
    first = first_of(answer)
    family, place = first["id"].partition("/")[0], first["location"].partition(":")[0]
    right = any(fnmatchcase(place, wanted) for wanted in case.places)
    return "named" if family in case.families and right else "misnamed"


def row_of(case: Case, answer: dict[str, Any]) -> dict[str, Any]:
    """The case's line of the table."""
    first = first_of(answer)
    return {
        "fault": case.fault,
        "strength": case.strength,
        "expected": " ".join(case.families),
        "named": first["id"],
        "where": first["location"],
        "verdict": judge(case, answer),
        "moment": answer.get("moment", "before"),
        "latest": case.moment,
        "seconds": round(answer.get("seconds", 0.0), 1),
        "error": answer.get("error", ""),
        "all": [f"{one['id']} @ {one['location']} {one.get('said', '')}" for one in answer["named"]],
    }
