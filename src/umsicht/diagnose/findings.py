"""A diagnosis as findings of the record: what a gate, the report and `umsicht explain` know it by."""

from __future__ import annotations

from typing import Any

from umsicht.diagnose.model import Diagnosis
from umsicht.findings import Finding
from umsicht.findings.finding import Grade

GRADES: dict[str, Grade] = {
    "diverged": "stop",
    "too-good": "stop",
    "level-shift-up": "warn",
    "level-shift-down": "warn",
    "overfitting": "warn",
    "domain-divergence": "warn",
    "both-high": "warn",
    "plateau": "warn",
    "saw-tooth": "warn",
    "uncertain": "note",
}


def findings_of(made: Diagnosis) -> list[Finding]:
    """One finding for a verdict that names a fault or is uncertain, one note for spikes that did not recover."""
    found = []
    location = f"step {made.evidence[-1].step}" if made.evidence else ""
    if made.verdict in GRADES:
        numbers: dict[str, Any] = {f"{item.metric}@{item.step}": item.value for item in made.evidence}
        numbers |= {"summary": made.summary, "verdict": made.verdict, "reason": made.reason}
        found.append(Finding(f"CURVE/{made.verdict}", GRADES[made.verdict], "diagnose", location, numbers))
    lost = [event for event in made.events if event.kind == "spike" and event.recovered is False]
    if lost:
        numbers = {"n": len(lost), "step": lost[0].step, "height": round(lost[0].numbers["height"], 4)}
        found.append(Finding("CURVE/spike-lost", "note", "diagnose", f"step {lost[0].step}", numbers))
    return found
