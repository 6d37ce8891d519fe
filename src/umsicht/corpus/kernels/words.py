"""Words of a text as 64-bit hashes, straight from its UTF-8 bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from umsicht.corpus.kernels.jit import boolean, inline, int64, kernel, readable, writable

BYTES = readable("uint8")
CODES = readable("uint32")
HASHES = writable("uint64")

BASIS = np.uint64(0xCBF29CE484222325)
PRIME = np.uint64(0x9FB21C651E98DF25)
MIX_1 = np.uint64(0xFF51AFD7ED558CCD)
MIX_2 = np.uint64(0xC4CEB9FE1A85EC53)
S32 = np.uint64(32)
S33 = np.uint64(33)
JOINER = np.uint32(2)

WORDS_A_BYTE = 2
"""A text of n bytes has at most n // 2 + 1 words: two ASCII characters each, or one character of three bytes."""


@inline
def mix(value: Any) -> Any:
    """The finaliser of MurmurHash3 (Appleby, public domain): every bit depends on every bit."""
    value = (value ^ (value >> S33)) * MIX_1
    value = (value ^ (value >> S33)) * MIX_2
    return value ^ (value >> S33)


@kernel(boolean(BYTES, int64, int64, BYTES))
def begins(buffer: Any, at: Any, end: Any, text: Any) -> bool:
    """Whether `text` stands at a place."""
    if at + len(text) > end:
        return False
    same = True
    for k in range(len(text)):
        same &= buffer[at + k] == text[k]
    return same


@inline
def _is_digit(code: Any) -> Any:
    """What a character folds to, with the mark of scripts without spaces taken off."""
    return code >= np.uint32(48) and code <= np.uint32(57)


@kernel(boolean(BYTES, int64, int64, CODES))
def digit_at(buffer: Any, at: int, end: int, codes: Any) -> bool:
    """Whether the character at a place folds to a digit."""
    if at >= end:
        return False
    b = np.uint32(buffer[at])
    if b < np.uint32(0x80):
        return _is_digit(codes[b])  # type: ignore[no-any-return]  # a boolean once compiled
    size = np.uint32(2) if b < np.uint32(0xE0) else np.uint32(3) if b < np.uint32(0xF0) else np.uint32(4)
    if b < np.uint32(0xC0) or at + size > end:
        return False
    c = b & (np.uint32(0xFF) >> (size + np.uint32(1)))
    for k in range(1, size):
        c = (c << np.uint32(6)) | (np.uint32(buffer[at + k]) & np.uint32(0x3F))
    return bool(c < len(codes) and _is_digit(codes[c]))


@kernel(boolean(BYTES, int64, int64, CODES))
def digit_before(buffer: Any, start: int, at: int, codes: Any) -> bool:
    """Whether the character before a place folds to a digit."""
    first = at - 1
    while first > start and buffer[first] & 0xC0 == 0x80:
        first -= 1
    return first >= start and digit_at(buffer, first, at, codes)


@kernel(int64(BYTES, int64, int64, CODES, CODES, HASHES))
def hash_words(buffer: Any, start: int, end: int, codes: Any, extra: Any, out: Any) -> int:
    """Write the hash of every word of `buffer[start:end]` to `out`; return how many. Malformed UTF-8 separates words.

    A comma or full stop of any width between two digits joins them.
    Indexes are unsigned throughout: signed ones cost a sign test at every access. Where ASCII words end is written without a branch, which could not
    be foretold: each place of `out` is written anew until its word is whole.
    """
    n = np.uint64(0)
    one = np.uint64(1)
    value = BASIS
    open_word = False
    i = np.uint64(start)
    stop = np.uint64(end)
    limit = np.uint32(len(codes))
    while i < stop:
        b = np.uint32(buffer[i])
        if b < np.uint32(0x80):
            while i < stop:
                b = np.uint32(buffer[i])
                if b >= np.uint32(0x80):
                    break
                code = codes[b]
                i += one
                if code == JOINER and open_word:
                    after: Any = np.int64(i)
                    if digit_at(buffer, after, end, codes) and digit_before(buffer, start, after - 1, codes):
                        continue
                inside = code > JOINER
                longer = (value ^ np.uint64(code)) * PRIME
                out[n] = value ^ (value >> S32)
                n += np.uint64(open_word and not inside)
                value = longer if inside else BASIS
                open_word = inside
            continue
        size = np.uint32(1)
        c = limit
        if b >= np.uint32(0xF0):
            size = np.uint32(4)
        elif b >= np.uint32(0xE0):
            size = np.uint32(3)
        elif b >= np.uint32(0xC0):
            size = np.uint32(2)
        if size > np.uint32(1) and i + np.uint64(size) <= stop:
            c = b & (np.uint32(0xFF) >> (size + np.uint32(1)))
            for k in range(1, size):
                c = (c << np.uint32(6)) | (np.uint32(buffer[i + np.uint64(k)]) & np.uint32(0x3F))
        i += np.uint64(size)
        code = codes[c] if c < limit else np.uint32(0)
        if code == np.uint32(1):
            continue
        if code == JOINER:
            after = np.int64(i)
            if digit_at(buffer, after, end, codes) and digit_before(
                buffer, start, after - np.int64(size), codes
            ):
                continue
            code = np.uint32(0)
        alone = code >= np.uint32(0x80000000)
        if open_word and (alone or code == np.uint32(0)):
            out[n] = value ^ (value >> S32)
            n += one
            value = BASIS
            open_word = False
        if code == np.uint32(0):
            continue
        if code & np.uint32(0x40000000):
            at = code & np.uint32(0x3FFFFFFF)
            for k in range(1, extra[at] + 1):
                value = (value ^ np.uint64(extra[at + np.uint32(k)])) * PRIME
        else:
            value = (value ^ np.uint64(code & np.uint32(0x3FFFFFFF))) * PRIME
        if alone:
            out[n] = value ^ (value >> S32)
            n += one
            value = BASIS
        else:
            open_word = True
    if open_word:
        out[n] = value ^ (value >> S32)
        n += one
    count: Any = np.int64(n)
    return count  # type: ignore[no-any-return]  # numba makes it an int64
