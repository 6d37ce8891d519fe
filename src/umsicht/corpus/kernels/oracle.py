"""Plain-Python twins of the kernels: slow, short, and written without looking at bytes. Tests compare the two on every kind of text."""

from __future__ import annotations

import re

from umsicht.corpus.kernels.fold import fold_character, stands_alone

_MASK = 0xFFFFFFFFFFFFFFFF
_BASIS, _PRIME = 0xCBF29CE484222325, 0x9FB21C651E98DF25
_BASE = 0x9E3779B97F4A7C15


def words(text: str) -> list[str]:
    """Folded words."""
    found: list[str] = []
    current = ""
    for character in re.sub(r"(?<=[0-9])[,.](?=[0-9])", "", text):
        folded = fold_character(character)
        if folded == "":
            continue
        if folded is None or stands_alone(ord(character)):
            if current:
                found.append(current)
            current = ""
            if folded:
                found.append(folded)
        else:
            current += folded
    return [*found, current] if current else found


def word_hash(word: str) -> int:
    """Hash of one folded word."""
    value = _BASIS
    for character in word:
        value = ((value ^ ord(character)) * _PRIME) & _MASK
    return value ^ (value >> 32)


def mix(value: int) -> int:
    """MurmurHash3's finaliser."""
    value = ((value ^ (value >> 33)) * 0xFF51AFD7ED558CCD) & _MASK
    value = ((value ^ (value >> 33)) * 0xC4CEB9FE1A85EC53) & _MASK
    return value ^ (value >> 33)


def run_hash(run: list[str], salt: int = 0) -> int:
    """Hash of a run of words."""
    value = salt
    for word in run:
        value = (value * _BASE + word_hash(word)) & _MASK
    return mix(value)


def shingles(text: str, n: int) -> list[int]:
    """Hashes of all runs of n words, in order; a shorter text is one shingle."""
    found = words(text)
    if not found:
        return []
    if len(found) < n:
        return [run_hash(found, salt=len(found))]
    return [run_hash(found[i : i + n]) for i in range(len(found) - n + 1)]


def sketch(text: str, n: int, size: int) -> list[int]:
    """The smallest different shingle hashes."""
    return sorted(set(shingles(text, n)))[:size]


def jaccard(left: set[int], right: set[int]) -> float:
    """Shared over all."""
    return len(left & right) / max(len(left | right), 1)


def containment(part: set[int], whole: set[int]) -> float:
    """Share of `part` that is in `whole`."""
    return len(part & whole) / max(len(part), 1)
