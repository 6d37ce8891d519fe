"""Characters of UTF-8 as kernels see them: their writing system, and whether they are white space, part of a word, or a sign to leave out."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from umsicht.corpus.kernels.jit import inline, int64, kernel
from umsicht.corpus.kernels.words import BYTES

SCRIPTS = (
    ("kana", 0x3040, 0x30FF),
    ("hangul", 0xAC00, 0xD7A3),
    ("hangul", 0x1100, 0x11FF),
    ("han", 0x4E00, 0x9FFF),
    ("han", 0x3400, 0x4DBF),
    ("thai", 0x0E00, 0x0E7F),
    ("lao", 0x0E80, 0x0EFF),
    ("tibetan", 0x0F00, 0x0FFF),
    ("burmese", 0x1000, 0x109F),
    ("georgian", 0x10A0, 0x10FF),
    ("khmer", 0x1780, 0x17FF),
    ("greek", 0x0370, 0x03FF),
    ("greek", 0x1F00, 0x1FFF),
    ("cyrillic", 0x0400, 0x052F),
    ("armenian", 0x0530, 0x058F),
    ("hebrew", 0x0590, 0x05FF),
    ("arabic", 0x0600, 0x06FF),
    ("devanagari", 0x0900, 0x097F),
    ("bengali", 0x0980, 0x09FF),
    ("gurmukhi", 0x0A00, 0x0A7F),
    ("gujarati", 0x0A80, 0x0AFF),
    ("oriya", 0x0B00, 0x0B7F),
    ("tamil", 0x0B80, 0x0BFF),
    ("telugu", 0x0C00, 0x0C7F),
    ("kannada", 0x0C80, 0x0CFF),
    ("malayalam", 0x0D00, 0x0D7F),
    ("sinhala", 0x0D80, 0x0DFF),
    ("latin", 0x0041, 0x024F),
    ("latin", 0x1E00, 0x1EFF),
)
SCRIPT_NAMES = ("", *dict.fromkeys(name for name, _, _ in SCRIPTS))
"""Number 0 is no script that is known."""

_SPACE, _WORD, _SIGN = 32, 64, 128


@functools.cache
def character_kinds() -> npt.NDArray[np.uint8]:
    """For every character of the basic plane: its script (letters only), and whether it is white space, part of a word, or a sign to leave out."""
    kinds = np.zeros(0x10000, np.uint8)
    for name, first, last in SCRIPTS:
        number = SCRIPT_NAMES.index(name)
        for code in range(first, last + 1):
            if chr(code).isalpha():
                kinds[code] = number
    for code in range(0x10000):
        character = chr(code)
        if character.isspace():
            kinds[code] |= _SPACE
        if character.isalnum() or character == "_":
            kinds[code] |= _WORD
    for character in "0123456789_#*|=<>/\\^~@":
        kinds[ord(character)] |= _SIGN
    return kinds


_COPY, _GAP, _HEAD = 1, 2, 3


@functools.cache
def byte_ways() -> npt.NDArray[np.uint8]:
    """For every byte: copied as it is, white space, the head of an address perhaps, or (0) wants the exact look."""
    kinds, ways = character_kinds()[:128], np.zeros(256, np.uint8)
    for code, kind in enumerate(kinds.tolist()):
        if kind & _SPACE:
            ways[code] = _GAP
        elif not kind & _SIGN and code not in b"<`{]&":
            ways[code] = _COPY
    ways[list(b"hw")] = _HEAD
    return ways


@inline
def size_of(b: Any) -> Any:
    return 1 if b < 0xC0 else 2 if b < 0xE0 else 3 if b < 0xF0 else 4


@kernel(int64(BYTES, int64, int64))
def code_at(buffer: Any, at: int, stop: int) -> int:
    """The character at a place; 0xFFFF for one beyond the basic plane or a broken one."""
    b: Any = np.int64(buffer[at])
    if b < 0x80:
        return b  # type: ignore[no-any-return]  # an int64 once compiled
    size = size_of(b)
    if size == 1 or size == 4 or at + size > stop:
        return 0xFFFF
    code = b & (0xFF >> (size + 1))
    for k in range(1, size):
        code = (code << 6) | (np.int64(buffer[at + k]) & 0x3F)
    return code  # type: ignore[no-any-return]


@kernel(int64(BYTES, int64, int64, int64))
def forward(buffer: Any, at: int, stop: int, characters: int) -> int:
    """The place so many characters on."""
    while at < stop and characters > 0:
        at += size_of(buffer[at])
        characters -= 1
    return min(at, stop)


@kernel(int64(BYTES, int64))
def count_characters(buffer: Any, size: int) -> int:
    found: Any = 0
    for i in range(size):
        found += (buffer[i] & 0xC0) != 0x80
    return found  # type: ignore[no-any-return]
