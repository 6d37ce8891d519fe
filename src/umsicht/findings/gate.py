"""A gate stays shut while an unwaived finding of grade `stop` stands before it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from umsicht.findings.finding import Finding


@dataclass(frozen=True)
class Waiver:
    """A written reason to pass a finding; it stays in the record."""

    id: str
    because: str

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return {"id": self.id, "because": self.because}


@dataclass(frozen=True)
class Decision:
    """What a gate decided, and on what."""

    gate: str
    open: bool
    stopping: tuple[Finding, ...]
    waived: tuple[tuple[Finding, Waiver], ...]


def decide(gate: str, findings: Iterable[Finding], waivers: Sequence[Waiver] = ()) -> Decision:
    """Open unless a `stop` finding has no waiver. A waiver counts only with a reason."""
    reasons = {waiver.id: waiver for waiver in waivers if waiver.because.strip()}
    stopping, waived = [], []
    for finding in findings:
        if finding.grade != "stop":
            continue
        waiver = reasons.get(finding.id)
        if waiver is None:
            stopping.append(finding)
        else:
            waived.append((finding, waiver))
    return Decision(gate, not stopping, tuple(stopping), tuple(waived))
