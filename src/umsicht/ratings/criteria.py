"""What raters are asked: criteria on a scale of 1 to 5, each level described; documented in the round's sheet and editable."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from umsicht.record.ids import content_id
from umsicht.words import t

DEFAULT = ("fluency", "coherence", "repetition", "factual", "instruction")
LEVELS = (1, 2, 3, 4, 5)


@dataclass(frozen=True)
class Criterion:
    """One question; `low` and `high` say what 1 and 5 mean (5 is always the better end)."""

    id: str
    question: str
    low: str
    high: str


@dataclass(frozen=True)
class Sheet:
    """The questions of a round, in the language the raters read; `digest` names exactly this wording."""

    language: str
    criteria: tuple[Criterion, ...]

    @property
    def digest(self) -> str:
        return content_id(asdict(self))

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "digest": self.digest}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Sheet:
        """Raises KeyError or TypeError where a criterion lacks a field."""
        return cls(
            str(plain["language"]),
            tuple(
                Criterion(**{k: str(c[k]) for k in ("id", "question", "low", "high")})
                for c in plain["criteria"]
            ),
        )


def default(language: str = "en", only: tuple[str, ...] = DEFAULT) -> Sheet:
    """The built-in criteria in English or German."""
    criteria = tuple(
        Criterion(
            name,
            t(f"ratings.criterion.{name}", lang=language),
            t(f"ratings.criterion.{name}.low", lang=language),
            t(f"ratings.criterion.{name}.high", lang=language),
        )
        for name in only
    )
    return Sheet(language, criteria)
