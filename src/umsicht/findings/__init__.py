"""Findings: what checks saw, in words, and the gates that they shut."""

from umsicht.findings.catalogue import Rendered, entry, known_ids, render, unmeasured
from umsicht.findings.errors import UserError
from umsicht.findings.finding import FAMILIES, Finding, Grade
from umsicht.findings.gate import Decision, Waiver, decide

__all__ = [
    "FAMILIES",
    "Decision",
    "Finding",
    "Grade",
    "Rendered",
    "UserError",
    "Waiver",
    "decide",
    "entry",
    "known_ids",
    "render",
    "unmeasured",
]
