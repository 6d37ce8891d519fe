"""One walk through the house: the recipe, the project folder, and what was found and decided on the way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from umsicht.findings import Decision, Finding, UserError, Waiver, decide
from umsicht.recipe import Recipe
from umsicht.record import QUIET, Progress
from umsicht.record.project import Project
from umsicht.words import t


@dataclass
class Walk:
    """What every step of the pipeline is given."""

    recipe: Recipe
    project: Project
    root: Path = Path()
    """Folder that relative paths in the recipe start at: the recipe's own."""
    progress: Progress = QUIET
    waivers: tuple[Waiver, ...] = ()
    acknowledged: tuple[Waiver, ...] = ()
    """Stops of a guard that a person has looked into, with what was found and changed."""
    findings: list[Finding] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)

    def found(self, findings: Iterable[Finding]) -> None:
        """Keep findings of a stage for the record."""
        self.findings += [finding for finding in findings if finding not in self.findings]

    def gate(self, name: str, findings: Iterable[Finding]) -> Decision:
        """Keep findings and decide; raises GateClosedError where a `stop` finding has no waiver."""
        fresh = list(findings)
        self.found(fresh)
        decision = decide(name, fresh, self.waivers)
        self.decisions.append(decision)
        if not decision.open:
            raise GateClosedError(decision)
        return decision


class GateClosedError(Exception):
    """A gate stays shut; `decision` holds the findings that shut it."""

    def __init__(self, decision: Decision) -> None:
        super().__init__(", ".join(finding.id for finding in decision.stopping))
        self.decision = decision


def parse_waivers(ids: Iterable[str], because: str) -> tuple[Waiver, ...]:
    """Waivers from the command line. Raises UserError where a finding is waived without a reason."""
    waived = [identity for identity in ids if identity]
    if waived and not because.strip():
        raise UserError(
            t("pipeline.waive_needs_reason"), fix=t("pipeline.waive_needs_reason.fix", id=waived[0])
        )
    return tuple(Waiver(identity, because.strip()) for identity in waived)
