"""A look into the vocabulary: its longest tokens, tokens that look like junk, tokens that no text uses, and what it shares with another."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from umsicht.tokenizer.core import Tokenizer

SHOWN = 20
LONG_CHARACTERS = 24
CHANGES = 3
"""Changes from letter to digit or back inside a token; names such as `x86_64` and `utf8` have fewer."""
_MIXED = re.compile(r"(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])")


@dataclass(frozen=True)
class VocabularyReport:
    """What is in a vocabulary. Tokens are spelled as Python would print them."""

    n_tokens: int
    mean_bytes: float
    longest: list[str]
    junk: list[str]
    n_junk: int
    scripts: dict[str, int]
    unused: int | None
    unused_share: float | None

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return dict(vars(self))


def token_lengths(tokenizer: Tokenizer) -> NDArray[np.int32]:
    """UTF-8 bytes that each id stands for, `[n_tokens]`; special tokens stand for none.

    The sum over the ids of a text is the bytes of the text: bits per byte rest on this table.
    """
    lengths = np.asarray(
        [len(tokenizer.token_bytes(number)) for number in range(tokenizer.n_tokens)], dtype=np.int32
    )
    lengths[list(tokenizer.special.values())] = 0
    return lengths


def inspect(tokenizer: Tokenizer, counts: NDArray[np.int64] | None = None) -> VocabularyReport:
    """Look at every token; with `counts` (uses of each id in some text, `[n_tokens]`) also at those never used."""
    ordinary = [
        number for number in range(tokenizer.n_tokens) if number not in set(tokenizer.special.values())
    ]
    raw = {number: tokenizer.token_bytes(number) for number in ordinary}
    by_length = sorted(ordinary, key=lambda number: (-len(raw[number]), number))
    junk = [number for number in ordinary if is_junk(raw[number])]
    unused = None if counts is None else int(sum(counts[number] == 0 for number in ordinary))
    return VocabularyReport(
        n_tokens=tokenizer.n_tokens,
        mean_bytes=round(sum(map(len, raw.values())) / max(1, len(raw)), 3),
        longest=[spelled(raw[number]) for number in by_length[:SHOWN]],
        junk=[spelled(raw[number]) for number in junk[:SHOWN]],
        n_junk=len(junk),
        scripts=dict(Counter(script_of(value) for value in raw.values()).most_common()),
        unused=unused,
        unused_share=None if unused is None else round(unused / max(1, len(ordinary)), 4),
    )


def count_uses(tokenizer: Tokenizer, texts: Iterable[str]) -> NDArray[np.int64]:
    """How often each id occurs in `texts`, `[n_tokens]`."""
    counts = np.zeros(tokenizer.n_tokens, dtype=np.int64)
    for text in texts:
        counts += np.bincount(tokenizer.encode_array(text), minlength=tokenizer.n_tokens)
    return counts


def overlap(one: Tokenizer, other: Tokenizer) -> dict[str, Any]:
    """How many byte strings both vocabularies have, and what share of each that is (special tokens left out)."""
    sets = [
        {t.token_bytes(number) for number in range(t.n_tokens) if number not in set(t.special.values())}
        - {b""}
        for t in (one, other)
    ]
    common = len(sets[0] & sets[1])
    return {
        "common": common,
        "share_of_first": round(common / max(1, len(sets[0])), 4),
        "share_of_second": round(common / max(1, len(sets[1])), 4),
    }


def is_junk(raw: bytes) -> bool:
    """Long runs of one character, long strings of symbols, long hexadecimal numbers, pieces of hashes and encoded data, over-long words: memorised formatting, not language.

    White space is spared: runs of spaces are how code is indented.
    """
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return len(raw) > LONG_CHARACTERS
    body = text.strip()
    if not body:
        return False
    if len(body) >= 8 and len(set(body)) <= 2:
        return True
    if len(body) >= 8 and not any(char.isalnum() for char in body):
        return True
    if len(body) >= 12 and all(char in "0123456789abcdefABCDEF" for char in body):
        return True
    if len(_MIXED.findall(body)) >= CHANGES:
        return True
    return len(body) > LONG_CHARACTERS


def script_of(raw: bytes) -> str:
    """The script of a token's letters by the first word of their Unicode names (`LATIN`, `CYRILLIC`, `CJK`, …), or `bytes`, `symbols`, `space`."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return "bytes"
    letters = [char for char in text if char.isalpha()]
    if not letters:
        return "space" if not text.strip() else "symbols"
    return unicodedata.name(letters[0], "UNKNOWN").split(" ")[0].split("-")[0]


def spelled(raw: bytes) -> str:
    """A token for people to read: text in quotes, other bytes as hexadecimal."""
    try:
        return repr(raw.decode())
    except UnicodeDecodeError:
        return "0x" + raw.hex()
