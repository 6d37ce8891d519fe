"""Recipe section `tokens`: mix, packing, order."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from umsicht.recipe.base import Section
from umsicht.words import t

Packing = Literal["concatenate", "best-fit"]
MixKey = Literal["source", "domain", "language", "slice"]


def _positive(shares: dict[str, float]) -> dict[str, float]:
    if any(value < 0 for value in shares.values()) or (shares and not sum(shares.values())):
        raise ValueError(t("recipe.rule.shares"))
    return shares


class PhaseSettings(Section):
    """A stretch of the training with its own shares."""

    until: float = Field(gt=0, le=1)
    """Share of the training at which the phase ends; the last phase ends at 1."""

    shares: dict[str, float] = Field(default={})
    """Shares in tokens by name; empty: every token of the data equally often."""

    _check = field_validator("shares")(_positive)


class MixSettings(Section):
    """What share of the training tokens comes from where."""

    by: MixKey = "source"
    """What the names in `shares` are: sources, domains, languages or slices."""

    shares: dict[str, float] = Field(default={})
    """Shares in tokens by name, normalised to 1; what is not named gets nothing. Empty: every token of the data equally often."""

    phases: list[PhaseSettings] = Field(default=[])
    """Curriculum: shares that change during the run; replaces `shares`."""

    epochs_warning: float = Field(default=4.0, gt=0)
    """Reading anything more often than this gives a finding (Muennighoff et al. 2023: up to about 4 passes are nearly as good as new text)."""

    _check = field_validator("shares")(_positive)

    @model_validator(mode="after")
    def _phases_end_at_one(self) -> Self:
        ends = [phase.until for phase in self.phases]
        if ends and (ends != sorted(set(ends)) or ends[-1] != 1):
            raise ValueError(t("recipe.rule.phases"))
        if self.phases and self.shares:
            raise ValueError(t("recipe.rule.shares_or_phases"))
        return self


class TokensSettings(Section):
    """How documents become rows."""

    packing: Packing = "concatenate"
    """`concatenate` strings documents together and cuts rows where they are full: nothing is padded, nothing lost. `best-fit` keeps
    documents whole where they fit into a row and pads the rest."""

    seed: int = Field(default=0, ge=0, lt=2**31)
    """Seed of the order of the data, apart from the seed of the model."""

    mix: MixSettings = MixSettings()

    shard_tokens: int = Field(default=100_000_000, gt=0)
    """Tokens in one shard file."""

    ready_made: list[str] = Field(default=[])
    """Ready-made token files (nanoGPT or llm.c `.bin`, `.npy`) to train on instead of the corpus's own tokens; `val=PATH` validates. The ids
    must be those of this recipe's tokenizer."""
