"""One look at every byte of a text: which of the slow, exact tests it needs at all. Most texts need none."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from umsicht.corpus.kernels.jit import boolean, inline, int64, kernel, readable, void, writable
from umsicht.corpus.kernels.shingles import EDGES
from umsicht.corpus.kernels.words import BYTES

CONTROL = 1
"""A byte that may be part of a control character or a byte-order mark."""
LINE_END = 2
"""A line end other than a line feed."""
MOJIBAKE = 4
"""A pair that UTF-8 read as Windows-1252 leaves behind."""
EDGE = 8
"""White space at the head, or at the tail."""
AT = 16
"""An at sign."""
KEY = 32
"""The head of a secret key."""
DOTS = 64
"""Digit, full stop, digit, or a run of colons: perhaps an address of a machine."""
NOTICE = 128
"""A word or sign of which copyright notices are made."""
MARKUP = 256
"""A back-tick or a tilde: perhaps Markdown."""
WIDE = 512
"""A byte beyond ASCII."""
DIGITS = 1024
"""Seven digits or more."""

SIGN_BYTES = b"{}()[];=<>_&|\"'.:"
SIGN_SHARE = 0.045
"""Prose stays well below."""

_LOOK, _SIGN, _DIGIT = 1, 2, 4


@functools.cache
def byte_kinds() -> npt.NDArray[np.uint8]:
    """For every byte whether it wants a closer look, is a sign of code, or a digit."""
    kinds = np.zeros(256, np.uint8)
    kinds[[*range(9), 11, 12, 13, *range(14, 32), 127]] |= _LOOK
    kinds[0x80:] |= _LOOK
    kinds[list(b"@_-AJPx~`.:)bBvVyY")] |= _LOOK
    kinds[list(SIGN_BYTES)] |= _SIGN
    kinds[list(b"0123456789")] |= _DIGIT
    return kinds


@inline
def _is(buffer: Any, at: Any, start: Any, end: Any, value: Any) -> Any:
    return at >= start and at < end and buffer[at] == value


@inline
def _lower(buffer: Any, at: Any, start: Any, end: Any, value: Any) -> Any:
    return at >= start and at < end and buffer[at] | 0x20 == value


@kernel(int64(BYTES, int64, int64))
def _broken_pair(buffer: Any, at: int, end: int) -> int:
    """After 0xC3: one of ÂÃÐÑØÙ, â, ã, ï or ð, and the head of a character that is left of a broken one."""
    if at + 2 >= end:
        return 0
    c, d = buffer[at + 1], buffer[at + 2]
    cut = d == 0xC2 or d == 0xC5 or d == 0xC6 or d == 0xCB or d == 0xE2
    found = cut and (c == 0x82 or c == 0x83 or c == 0x90 or c == 0x91 or c == 0x98 or c == 0x99)
    found |= c == 0xA2 and d == 0xE2 and at + 3 < end and buffer[at + 3] == 0x82
    found |= c == 0xA3 and (d == 0xC2 or d == 0xC6 or d == 0xE2)
    found |= (c == 0xAF and d == 0xC2) or (c == 0xB0 and d == 0xC5)
    return 4 if found else 0


@kernel(int64(BYTES, int64, int64, int64))
def _beyond_ascii(buffer: Any, i: int, start: int, end: int) -> int:
    b = buffer[i]
    if b == 0xC3:
        return _broken_pair(buffer, i, end)
    if b == 0xC2 and i + 1 < end:
        c = buffer[i + 1]
        return 128 if c == 0xA9 else 0 if c >= 0xA0 else 2 if c == 0x85 else 1
    if b == 0xE2:
        last = _is(buffer, i + 2, start, end, 0xA8) or _is(buffer, i + 2, start, end, 0xA9)
        return 2 if last and buffer[i + 1] == 0x80 else 0
    if b == 0xEF:
        return 1 if _is(buffer, i + 1, start, end, 0xBB) or _is(buffer, i + 1, start, end, 0xBF) else 0
    if b == 0xE7:
        return 128 if _is(buffer, i + 1, start, end, 0x89) or _is(buffer, i + 1, start, end, 0x84) else 0
    if b == 0xD1 and _is(buffer, i + 1, start, end, 0x89):
        return 128 if _is(buffer, i + 3, start, end, 0xB8) and _is(buffer, i + 5, start, end, 0x89) else 0
    if b == 0xD0 and _is(buffer, i + 1, start, end, 0xA9):
        return 128 if _is(buffer, i + 3, start, end, 0x98) and _is(buffer, i + 5, start, end, 0xA9) else 0
    return 0


@kernel(int64(BYTES, int64, int64, int64))
def _key_head(buffer: Any, i: int, start: int, end: int) -> int:
    """The signs by which the heads of known kinds of keys are told: `_`, `-`, `A`, `J`, `P`, `x`."""
    b = buffer[i]
    found = False
    if b == 95 and i >= start + 2:
        found = buffer[i - 2] == 104 and buffer[i - 1] == 102
        found |= i >= start + 3 and buffer[i - 3] == 103 and buffer[i - 2] == 104
    elif b == 45 and i >= start + 2:
        found = buffer[i - 2] == 115 and buffer[i - 1] == 107
    elif b == 65 and i + 3 < end:
        c, d, e = buffer[i + 1], buffer[i + 2], buffer[i + 3]
        found = ((c == 75 or c == 83) and d == 73 and e == 65) or (c == 73 and d == 122 and e == 97)
    elif b == 74 and i >= start + 2:
        found = buffer[i - 2] == 101 and buffer[i - 1] == 121
    elif b == 80:
        found = _is(buffer, i + 1, start, end, 82) and _is(buffer, i + 2, start, end, 73)
    elif b == 120:
        found = _is(buffer, i + 1, start, end, 111) and _is(buffer, i + 2, start, end, 120)
    return 32 if found else 0


@kernel(boolean(BYTES, int64, int64, int64))
def _reserved(buffer: Any, i: int, start: int, end: int) -> bool:
    """Around the `v` of `serv`: reserved (not preserved), reservados, riservati, réservés."""
    c, before = buffer[i + 1] | 0x20, buffer[i - 4] | 0x20 if i >= start + 4 else np.uint8(0)
    if buffer[i + 1] == 0xC3:
        return bool(before == 0xA9)
    if not _lower(buffer, i - 5, start, end, 114):
        return False
    if before == 105:
        return bool(c == 97 and _lower(buffer, i + 2, start, end, 116))
    whole = (c == 97 or c == 101) and _lower(buffer, i + 2, start, end, 100)
    return bool(before == 101 and whole and not _lower(buffer, i - 6, start, end, 112))


@kernel(int64(BYTES, int64, int64, int64))
def _notice_part(buffer: Any, i: int, start: int, end: int) -> int:
    """`(c)`, and the middle of the words for *reserved*, *vorbehalten* and *copyright*."""
    b = buffer[i] | 0x20
    found = False
    if buffer[i] == 41:
        found = _lower(buffer, i - 1, start, end, 99) and _is(buffer, i - 2, start, end, 40)
    elif b == 98 and _lower(buffer, i - 1, start, end, 114) and _lower(buffer, i - 2, start, end, 111):
        found = _lower(buffer, i - 3, start, end, 118) or _lower(buffer, i - 3, start, end, 111)
    elif b == 118 and _lower(buffer, i - 1, start, end, 114) and i + 1 < end:
        if _lower(buffer, i - 2, start, end, 101) and _lower(buffer, i - 3, start, end, 115):
            found = _reserved(buffer, i, start, end)
    elif b == 121 and _lower(buffer, i - 1, start, end, 112) and _lower(buffer, i - 2, start, end, 111):
        found = _lower(buffer, i + 1, start, end, 114)
    return 128 if found else 0


@kernel(int64(BYTES, int64, int64))
def _edges(buffer: Any, start: int, end: int) -> int:
    """White space at the head or the tail; every kind of it that Unicode knows."""
    if end == start:
        return 0
    a, z = buffer[start], buffer[end - 1]
    if a <= 32 or z <= 32:
        return 8
    found = False
    if a >= 0x80 and end - start >= 3:
        b, c = buffer[start + 1], buffer[start + 2]
        found |= a == 0xC2 and (b == 0xA0 or b == 0x85)
        found |= (a == 0xE2 and (b == 0x80 or b == 0x81)) or (a == 0xE1 and b == 0x9A)
        found |= a == 0xE3 and b == 0x80 and c == 0x80
    if z >= 0x80 and end - start >= 3:
        y, x = buffer[end - 2], buffer[end - 3]
        found |= y == 0xC2 and (z == 0xA0 or z == 0x85)
        found |= (x == 0xE2 and (y == 0x80 or y == 0x81)) or (x == 0xE1 and y == 0x9A)
        found |= x == 0xE3 and y == 0x80 and z == 0x80
    found |= end - start == 2 and a == 0xC2
    return 8 if found else 0


@kernel(void(BYTES, EDGES, EDGES, readable("uint8"), writable("uint32")))
def survey(buffer: Any, starts: Any, ends: Any, kinds: Any, out: Any) -> None:
    """Fill `out [texts]` with the flags of every text. A flag that is not set is certain; one that is set calls for the exact test."""
    for row in range(len(starts)):
        start, end = starts[row], ends[row]
        flags: Any = _edges(buffer, start, end)
        digits = 0
        colons = 0
        for i in range(start, end):
            b = buffer[i]
            kind = kinds[b]
            if kind == 0:
                continue
            digits += kind >> 2
            if kind & 1 == 0:
                continue
            if b >= 0x80:
                flags |= 512
                if b >= 0xC2:
                    flags |= _beyond_ascii(buffer, i, start, end)
            elif b < 32 or b == 127:
                flags |= 2 if b == 13 else 1
            elif b == 46:
                if i > start and i + 1 < end and kinds[buffer[i - 1]] & 4 and kinds[buffer[i + 1]] & 4:
                    flags |= 64
            elif b == 58:
                colons += 1
                flags |= 64 if colons >= 5 or _is(buffer, i + 1, start, end, 58) else 0
            elif b == 64:
                flags |= 16
            elif b == 96 or b == 126:
                flags |= 256
            elif b == 95 or b == 45 or b == 65 or b == 74 or b == 80 or b == 120:
                flags |= _key_head(buffer, i, start, end)
            else:
                flags |= _notice_part(buffer, i, start, end)
        if digits >= 7:
            flags |= 1024
        out[row] = flags


@inline
def _signs_in(buffer: Any, first: Any, last: Any, kinds: Any) -> Any:
    signs = 0
    for i in range(first, last):
        signs += (kinds[buffer[i]] >> 1) & 1
    return signs


@inline
def _characters_in(buffer: Any, first: Any, last: Any) -> Any:
    found = 0
    for i in range(first, last):
        found += (buffer[i] & 0xC0) != 0x80
    return found


@kernel(void(BYTES, EDGES, EDGES, readable("uint8"), writable("bool_")))
def sign_dense(buffer: Any, starts: Any, ends: Any, kinds: Any, out: Any) -> None:
    """Whether more than `SIGN_SHARE` of a text's characters are signs of code, in the head and the middle of a long text."""
    for row in range(len(starts)):
        start, end = starts[row], ends[row]
        if end - start <= 5_000:
            signs = _signs_in(buffer, start, end, kinds)
            characters = _characters_in(buffer, start, end)
        else:
            middle = (start + end) // 2
            signs = _signs_in(buffer, start, start + 2_000, kinds)
            signs += _signs_in(buffer, middle, min(middle + 3_000, end), kinds)
            characters = _characters_in(buffer, start, start + 2_000)
            characters += _characters_in(buffer, middle, min(middle + 3_000, end))
        out[row] = signs > 0.045 * characters
