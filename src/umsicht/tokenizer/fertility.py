"""Fertility: tokens a word, tokens a byte.

Fertility is tokens divided by words (Rust et al. 2021, "How good is your tokenizer?"). Scripts that do not separate words have no word count to
divide by, so for them a word is a character of those scripts; tokens a byte needs no such convention and is always given beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from umsicht.tokenizer.core import Tokenizer
from umsicht.tokenizer.sample import Sample, utf8_length

# Han, kana, Thai, Lao, Khmer, Burmese, Tibetan: written without spaces between words.
_UNSPACED = "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\s{_UNSPACED}]*\w[^\s{_UNSPACED}]*")


@dataclass(frozen=True)
class Fertility:
    """Counts over some text, and the ratios that follow from them."""

    tokens: int
    words: int
    bytes: int
    characters: int
    documents: int

    @property
    def tokens_per_word(self) -> float:
        """Tokens ÷ words."""
        return self.tokens / self.words if self.words else float("nan")

    @property
    def bytes_per_token(self) -> float:
        """UTF-8 bytes ÷ tokens."""
        return self.bytes / self.tokens if self.tokens else float("nan")

    def __add__(self, other: Fertility) -> Fertility:
        return Fertility(
            self.tokens + other.tokens,
            self.words + other.words,
            self.bytes + other.bytes,
            self.characters + other.characters,
            self.documents + other.documents,
        )

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON, ratios included."""
        return {
            "tokens": self.tokens,
            "words": self.words,
            "bytes": self.bytes,
            "characters": self.characters,
            "documents": self.documents,
            "tokens_per_word": round(self.tokens_per_word, 4) if self.words else None,
            "tokens_per_byte": round(self.tokens / self.bytes, 5) if self.bytes else None,
            "bytes_per_token": round(self.bytes_per_token, 4) if self.tokens else None,
        }


NOTHING = Fertility(0, 0, 0, 0, 0)


def count_words(text: str) -> int:
    """Words of `text`: runs without white space that hold a letter or digit; single characters in scripts without spaces."""
    return sum(1 for _ in _WORD.finditer(text))


def of_text(tokenizer: Tokenizer, text: str) -> Fertility:
    """Counts of one text."""
    return Fertility(len(tokenizer.encode_array(text)), count_words(text), utf8_length(text), len(text), 1)


def measure(tokenizer: Tokenizer, documents: Iterable[Sample]) -> dict[str, Fertility]:
    """Counts by slice (`domain.language`)."""
    found: dict[str, Fertility] = {}
    for document in documents:
        name = f"{document.domain}.{document.language}"
        found[name] = found.get(name, NOTHING) + of_text(tokenizer, document.text)
    return found
