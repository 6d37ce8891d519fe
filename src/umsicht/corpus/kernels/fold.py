"""Folding of characters, so that copies in capitals, in full width, or with decomposed accents have the same words.

A word is a run of letters, digits and marks. Folding is Unicode case folding, compatibility decomposition (NFKD: full width, circled, mathematical
letters), digits of every script as 0 to 9, removal of combining marks in U+0300–U+036F, and dotless i as i (Turkish capitals cannot tell them apart).
Invisible format characters are left out. Scripts written without spaces (Han, kana, Thai, Lao, Khmer, Myanmar, Tibetan) give one word a character.
Hangul syllables stay whole. A comma or full stop of any width between two digits joins them: 1,240 and 1240 are one number.
"""

from __future__ import annotations

import functools
import unicodedata
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

LIMIT = 0x33480
"""Characters from here on (unassigned, tags, private planes) separate words."""
SEPARATOR = 0
SKIP = 1
JOINER = 2
"""Joins two digits, and separates everything else."""
JOINERS = frozenset(",.\uff0c\uff0e\ufe50\ufe52\u066b\u066c")
ALONE = 1 << 31
EXPANDS = 1 << 30
VALUE = (1 << 30) - 1

_ALONE_RANGES = (
    (0x0E00, 0x0E7F),
    (0x0E80, 0x0EFF),
    (0x0F00, 0x0FFF),
    (0x1000, 0x109F),
    (0x1780, 0x17FF),
    (0x2E80, 0x2FDF),
    (0x3005, 0x3007),
    (0x3040, 0x30FF),
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0xFF66, 0xFF9D),
    (0x1B000, 0x1B16F),
    (0x20000, 0x3347F),
)
_SKIPPED = {0x0640, *range(0x0300, 0x0370), *range(0xFE00, 0xFE10)}


@dataclass(frozen=True)
class FoldTable:
    """`codes[c]` is what character c becomes; expansions lie in `extra` as a length followed by the characters."""

    codes: npt.NDArray[np.uint32]
    extra: npt.NDArray[np.uint32]


def stands_alone(code: int) -> bool:
    """Characters of scripts without spaces."""
    return any(first <= code <= last for first, last in _ALONE_RANGES)


def fold_character(character: str) -> str | None:
    """What a character becomes: None separates words, an empty string is left out."""
    code = ord(character)
    if code >= LIMIT:
        return None
    category = unicodedata.category(character)
    if code in _SKIPPED or category == "Cf":
        return ""
    if category == "Nd":
        return str(unicodedata.decimal(character))
    circled = category == "So" and unicodedata.decomposition(character).startswith("<circle>")
    if category[0] not in "LNM" and not circled:
        return None
    if 0xAC00 <= code <= 0xD7A3:
        return character
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", character.casefold()).casefold())
    kept = (("i" if c == "ı" else c) for c in folded if ord(c) not in _SKIPPED)
    return "".join(c for c in kept if unicodedata.category(c)[0] in "LNM")


@functools.cache
def fold_table() -> FoldTable:
    """The table for the kernels; built once a process (about a quarter of a second)."""
    codes = np.zeros(LIMIT, np.uint32)
    extra: list[int] = [0]
    known: dict[str, int] = {}
    for code in range(LIMIT):
        if 0x3400 <= code <= 0x4DBF or 0x4E00 <= code <= 0x9FFF or code >= 0x20000:
            assigned = unicodedata.category(chr(code)) != "Cn" and not 0x2F800 <= code <= 0x2FA1F
            if assigned:
                codes[code] = code | ALONE
                continue
        if 0xD800 <= code <= 0xDFFF:
            continue
        if chr(code) in JOINERS:
            codes[code] = JOINER
            continue
        folded = fold_character(chr(code))
        if folded is None:
            continue
        alone = ALONE if stands_alone(code) and not folded.isdecimal() else 0
        if not folded:
            codes[code] = SKIP
        elif len(folded) == 1:
            codes[code] = ord(folded) | alone
        else:
            if folded not in known:
                known[folded] = len(extra)
                extra += [len(folded), *map(ord, folded)]
            codes[code] = known[folded] | EXPANDS | alone
    return FoldTable(codes, np.array(extra, np.uint32))


def table_arguments() -> tuple[Any, Any]:
    """The two arrays that kernels take."""
    table = fold_table()
    return table.codes, table.extra
