"""A finding: what was seen, where, how bad; its words come from the catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Grade = Literal["stop", "warn", "note"]
GRADES: tuple[Grade, ...] = ("stop", "warn", "note")

FAMILIES = (
    "TEXT-LOSS",
    "ID-RANGE",
    "BOUNDARY-TOKEN",
    "TARGET-SHIFT",
    "TARGET-MASK",
    "LEAK-FUTURE",
    "LEAK-DOC",
    "LOSS-NORM",
    "DATA-ORDER",
    "RESUME-STATE",
    "OPT-WIRING",
    "EVAL-VALIDITY",
    "NUMERIC",
    "LOAD-MAP",
    "ADAPTER",
    "CORPUS",
    "TOKENIZER",
    "BUDGET",
    "CONTEXT",
    "CURVE",
    "CHECKPOINT",
    "RECORD",
    "FINETUNE",
    "RATING",
    "RANK",
    "SAMPLE",
    "SURVIVE",
)


@dataclass(frozen=True)
class Finding:
    """One thing that a check saw.

    `id` is `FAMILY/slug` and names the words in the catalogue; `location` says where exactly (a file, slice, parameter, step);
    `numbers` are what was measured, and fill the catalogue's placeholders; `examples` are a few short excerpts.
    """

    id: str
    grade: Grade
    stage: str
    location: str = ""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    examples: tuple[str, ...] = ()
    cause: str = ""
    consequence_of: str = ""

    def __post_init__(self) -> None:
        family = self.id.partition("/")[0]
        if family not in FAMILIES or "/" not in self.id:
            raise ValueError(f"finding id {self.id!r} does not begin with a known family")
        if self.grade not in GRADES:
            raise ValueError(f"finding grade must be one of {GRADES}, got {self.grade!r}")

    @property
    def family(self) -> str:
        """The family part of the id."""
        return self.id.partition("/")[0]

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        plain = asdict(self)
        plain["numbers"] = dict(self.numbers)
        plain["examples"] = list(self.examples)
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Finding:
        """The inverse of `to_dict`; unknown keys (time, step, waiver) are left out."""
        known = {name: plain[name] for name in cls.__dataclass_fields__ if name in plain}
        known["examples"] = tuple(known.get("examples", ()))
        return cls(**known)
