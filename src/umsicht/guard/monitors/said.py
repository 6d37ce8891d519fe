"""Writing what a monitor saw."""

from __future__ import annotations

from umsicht.findings import Finding
from umsicht.train.hooks import View


def add(view: View, finding: Finding) -> None:
    """Write a finding to the run's record, with its step."""
    view.run.add_finding({**finding.to_dict(), "step": view.step})
