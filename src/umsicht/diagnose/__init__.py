"""Read curves as an experienced engineer would: what they mean, what to look at next, whether two runs really differ.

Needs no torch: it reads records, its own and other tools'.
"""

from umsicht.diagnose.diagnosis import diagnose, judge
from umsicht.diagnose.findings import findings_of
from umsicht.diagnose.logs import read_log
from umsicht.diagnose.model import Diagnosis, Event, Evidence, Gap, NextStep

__all__ = [
    "Diagnosis",
    "Event",
    "Evidence",
    "Gap",
    "NextStep",
    "diagnose",
    "findings_of",
    "judge",
    "read_log",
]
