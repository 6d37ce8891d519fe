"""Recipe section `tokenizer`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from umsicht.recipe.base import Section
from umsicht.words import t

PreTokenizerName = Literal["qwen2", "llama-bpe", "gpt-2"]


class TokenizerSettings(Section):
    """How the vocabulary is made."""

    vocab_size: int = Field(default=4096, ge=272, le=1_000_000)
    """Ids in all: bytes, merges and special tokens."""

    pre_tokenizer: PreTokenizerName = "qwen2"
    """How text is cut before merging, by llama.cpp's name. It decides digits too: `qwen2` one at a time, `llama-bpe` in groups of up to three, `gpt-2` whole numbers."""

    sample_bytes: int = Field(default=50_000_000, gt=0)
    """UTF-8 bytes of text that merges are learned from, taken from every slice (domain and language)."""

    temperature: float = Field(default=0.7, ge=0, le=1)
    """Weight of a slice in the sample is its bytes to this power: 1 as in the corpus, 0 all slices equal."""

    shares: dict[str, float] | None = None
    """Explicit shares of the sample by slice, language or domain name, instead of `temperature`; what is not named gets nothing."""

    languages: list[str] = Field(default=[])
    """Languages the model is meant for; one that the sample lacks, or that costs too many tokens, is a finding. Empty: those of the corpus."""

    domains: list[str] = Field(default=[])
    """Domains the model is meant for; empty: those of the corpus."""

    fertility_ratio: float = Field(default=2.0, gt=1)
    """A language that needs more than this many times the tokens of the cheapest one for the same content is a finding."""

    reserved: int = Field(default=8, ge=0, le=4096)
    """Special tokens kept free for later use."""

    min_frequency: int = Field(default=2, ge=1)
    """A merge must have been seen this often in the sample."""

    seed: int = Field(default=0, ge=0, lt=2**31)
    """Seed of the choice of documents."""

    @field_validator("shares")
    @classmethod
    def _shares_are_positive(cls, shares: dict[str, float] | None) -> dict[str, float] | None:
        if shares is not None and (
            not shares or any(value < 0 for value in shares.values()) or not sum(shares.values())
        ):
            raise ValueError(t("recipe.rule.shares"))
        return shares
