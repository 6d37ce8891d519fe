"""What a diagnosis is made of. Plain dataclasses: `to_dict()` is what `--json` prints and what the dashboard reads."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

VERDICTS = (
    "diverged",
    "too-good",
    "level-shift-up",
    "overfitting",
    "domain-divergence",
    "level-shift-down",
    "both-high",
    "plateau",
    "saw-tooth",
    "healthy",
    "uncertain",
    "too-early",
)
ILL = frozenset(VERDICTS[:9])
Confidence = Literal["high", "medium", "low"]


@dataclass(frozen=True)
class Evidence:
    """One number of the record that a verdict rests on: it stands in the file, under this name, at this step."""

    metric: str
    step: int
    value: float
    role: str

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Event:
    """Something that happened at a place in the curve.

    `kind`: spike, level-shift-up, level-shift-down, nonfinite, restart, lr-bump, saw-tooth, frozen. `numbers` are measured;
    `explained_by` names an event at the same place that accounts for this one.
    """

    kind: str
    metric: str
    step: int
    until: int | None = None
    recovered: bool | None = None
    explained_by: str = ""
    numbers: dict[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)


@dataclass(frozen=True)
class NextStep:
    """One thing to do that changes or tests one cause."""

    id: str
    command: str
    text: str
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Also:
    """A second thing worth saying that did not become the verdict."""

    id: str
    numbers: dict[str, Any] = field(default_factory=dict)
    text: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Gap:
    """Validation minus training loss, on like-for-like tokens where the record has them."""

    metric: str
    like_for_like: bool
    steps: tuple[int, ...]
    gaps: tuple[float, ...]
    last: float
    share: float
    slope_per_1000_steps: float
    growing: bool
    epochs_seen: float | None
    by_domain: dict[str, float]
    reading: str

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Diagnosis:
    """The verdict on one run and everything it rests on."""

    verdict: str
    confidence: Confidence
    reason: str
    evidence: tuple[Evidence, ...]
    next_steps: tuple[NextStep, ...]
    events: tuple[Event, ...]
    also: tuple[Also, ...]
    gap: Gap | None
    causes: tuple[str, ...]
    missing: tuple[str, ...]
    facts: dict[str, Any]
    read: dict[str, Any]
    title: str = ""
    summary: str = ""

    @property
    def healthy(self) -> bool:
        """Both losses fall and nothing stands against it."""
        return self.verdict == "healthy"

    @property
    def ill(self) -> bool:
        """The verdict names a fault."""
        return self.verdict in ILL

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "schema": 1,
            "verdict": self.verdict,
            "title": self.title,
            "summary": self.summary,
            "confidence": self.confidence,
            "reason": self.reason,
            "evidence": [item.to_dict() for item in self.evidence],
            "causes": list(self.causes),
            "next_steps": [item.to_dict() for item in self.next_steps],
            "events": [item.to_dict() for item in self.events],
            "also": [item.to_dict() for item in self.also],
            "gap": self.gap.to_dict() if self.gap else None,
            "missing": list(self.missing),
            "facts": self.facts,
            "read": self.read,
        }
