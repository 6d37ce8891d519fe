"""Guards: contracts before a run, monitors during it; on our models and on anybody else's."""

from umsicht.guard.check import check
from umsicht.guard.declared import Declared
from umsicht.guard.monitors import monitors
from umsicht.guard.preflight import PreflightInputs, preflight
from umsicht.guard.probe import Report
from umsicht.guard.watch import GuardStop, Watch, watch

__all__ = [
    "Declared",
    "GuardStop",
    "PreflightInputs",
    "Report",
    "Watch",
    "check",
    "monitors",
    "preflight",
    "watch",
]
