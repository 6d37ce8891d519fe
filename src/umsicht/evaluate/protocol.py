"""How scores were taken: everything that a score depends on besides the model."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from umsicht.findings import UserError
from umsicht.record.ids import content_id
from umsicht.words import t


@dataclass(frozen=True)
class Protocol:
    """Everything that a score depends on besides the model: scores of unequal protocols are not comparable."""

    heldout: str
    """Digest of the scored excerpts."""
    prefix_token: int
    """Id of the token before each document (its own text never holds it)."""
    window: int
    stride: int
    dtype: str = "float32"
    end_of_text: str = "scored where the excerpt is a whole document"
    bytes: str = "UTF-8 bytes of the raw text"

    @property
    def digest(self) -> str:
        return content_id(asdict(self))

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "digest": self.digest}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Protocol:
        return cls(**{name: plain[name] for name in cls.__dataclass_fields__ if name in plain})

    def require_equal(self, other: Protocol, *, across_tokenizers: bool = True) -> None:
        """Raises UserError naming the first difference that forbids a comparison.

        Bits per byte may be compared between tokenizers, whose prefix tokens have different ids; pass
        `across_tokenizers=False` to refuse that too.
        """
        mine, theirs = asdict(self), asdict(other)
        if across_tokenizers:
            mine.pop("prefix_token"), theirs.pop("prefix_token")
        for name, value in mine.items():
            if value != theirs[name]:
                raise UserError(
                    t("evaluate.protocols_differ", name=name),
                    where=f"{value} | {theirs[name]}",
                    why=t("evaluate.protocols_differ.why"),
                    fix=t("evaluate.protocols_differ.fix"),
                )
