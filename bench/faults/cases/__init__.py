"""The faults of the catalogue as injectors, a file a stage; `CASES` in the order of the pipeline."""

from __future__ import annotations

from bench.faults.case import CASES, Case

from bench.faults.cases import (  # isort: skip
    text,
    data,
    targets,
    model,
    optimizer,
    resume,
    evaluation,
    distributed,
    tuning,
    foreign,
    beyond,
    loops,
    turning,
    wiring,
    answering,
    reported,
    during,
)
from bench.faults.cases.absent import ABSENT

__all__ = [
    "ABSENT",
    "CASES",
    "Case",
    "answering",
    "beyond",
    "data",
    "distributed",
    "during",
    "evaluation",
    "foreign",
    "loops",
    "model",
    "optimizer",
    "reported",
    "resume",
    "targets",
    "text",
    "tuning",
    "turning",
    "wiring",
]
