"""One string out of every line of JSON: flat objects, read strictly. Whatever is not plainly sound (nested values, half surrogates, names written with
escapes, a name that comes twice) is left to a general reader; the twin in tests is one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from umsicht.corpus.kernels.jit import boolean, inline, int64, kernel, uint64, writable
from umsicht.corpus.kernels.shingles import EDGES
from umsicht.corpus.kernels.words import BYTES, begins

_STOP = np.ones(256, np.uint8)
"""Bytes that a string is not simply copied over: its end, escapes, control characters."""
_STOP[[*range(32, 34), *range(35, 92), *range(93, 256)]] = 0
_ESCAPED = np.zeros(256, np.uint8)
"""What follows a backslash, and what it stands for."""
for _sign, _meant in zip(b'"\\/bfnrt', b'"\\/\b\f\n\r\t', strict=True):
    _ESCAPED[_sign] = _meant
_HEX = np.full(256, 255, np.uint8)
for _digit in b"0123456789abcdefABCDEF":
    _HEX[_digit] = int(chr(_digit), 16)
_TRUE, _FALSE, _NULL = (np.frombuffer(word, np.uint8) for word in (b"true", b"false", b"null"))
UNSOUND = np.uint64(0xFFFFFFFFFFFFFFFF)
"""Said instead of a place: here this reader gives up."""
ONE = np.uint64(1)


@kernel(uint64(BYTES, uint64, uint64))
def _past_space(data: Any, at: Any, end: Any) -> Any:
    while at < end and (data[at] == 32 or data[at] == 9 or data[at] == 13):
        at += ONE
    return at


@kernel(uint64(BYTES, uint64, uint64))
def _four_digits(data: Any, at: Any, end: Any) -> Any:
    """The character behind `\\u`."""
    if at + np.uint64(4) > end:
        return UNSOUND
    value = np.uint64(0)
    for k in range(np.uint64(4)):
        digit = _HEX[data[at + k]]
        if digit == 255:
            return UNSOUND
        value = (value << np.uint64(4)) | np.uint64(digit)
    return value


@inline
def _rest(code: Any, shift: Any) -> Any:
    """A byte after the first one of a character."""
    return np.uint8(np.uint64(0x80) | ((code >> np.uint64(shift)) & np.uint64(63)))


@kernel(uint64(uint64, writable("uint8"), uint64))
def _encode(code: Any, out: Any, n: Any) -> Any:
    """A character in UTF-8; returns where the next one goes."""
    if code < np.uint64(0x80):
        out[n] = np.uint8(code)
        return n + ONE
    if code < np.uint64(0x800):
        out[n] = np.uint8(np.uint64(0xC0) | (code >> np.uint64(6)))
        out[n + ONE] = _rest(code, 0)
        return n + np.uint64(2)
    if code < np.uint64(0x10000):
        out[n] = np.uint8(np.uint64(0xE0) | (code >> np.uint64(12)))
        out[n + ONE] = _rest(code, 6)
        out[n + np.uint64(2)] = _rest(code, 0)
        return n + np.uint64(3)
    out[n] = np.uint8(np.uint64(0xF0) | (code >> np.uint64(18)))
    out[n + ONE] = _rest(code, 12)
    out[n + np.uint64(2)] = _rest(code, 6)
    out[n + np.uint64(3)] = _rest(code, 0)
    return n + np.uint64(4)


@kernel(boolean(BYTES, uint64, uint64, writable("uint8"), writable("uint64")))
def _string(data: Any, at: Any, end: Any, out: Any, places: Any) -> Any:
    """Decode a string from behind its opening quote into `out`, from place `places[1]` on; then `places` are behind its closing quote, and the end of
    the text. False where it is not sound.
    """
    n = places[1]
    while at < end:
        b = data[at]
        if _STOP[b] == 0:
            out[n] = b
            n += ONE
            at += ONE
            continue
        if b == 34:
            places[0] = at + ONE
            places[1] = n
            return True
        if b != 92 or at + ONE >= end:
            return False
        b = data[at + ONE]
        at += np.uint64(2)
        if _ESCAPED[b]:
            out[n] = _ESCAPED[b]
            n += ONE
            continue
        if b != 117:
            return False
        code = _four_digits(data, at, end)
        at += np.uint64(4)
        if code >= np.uint64(0xD800) and code < np.uint64(0xDC00):
            if at + ONE >= end or data[at] != 92 or data[at + ONE] != 117:
                return False
            low = _four_digits(data, at + np.uint64(2), end)
            at += np.uint64(6)
            if low < np.uint64(0xDC00) or low > np.uint64(0xDFFF):
                return False
            code = (
                np.uint64(0x10000) + ((code - np.uint64(0xD800)) << np.uint64(10)) + low - np.uint64(0xDC00)
            )
        elif code > np.uint64(0xFFFF) or (code >= np.uint64(0xDC00) and code < np.uint64(0xE000)):
            return False
        n = _encode(code, out, n)
    return False


@kernel(uint64(BYTES, uint64, uint64))
def _past_digits(data: Any, at: Any, end: Any) -> Any:
    while at < end and data[at] >= 48 and data[at] <= 57:
        at += ONE
    return at


@kernel(uint64(BYTES, uint64, uint64))
def _past_number(data: Any, at: Any, end: Any) -> Any:
    if at < end and data[at] == 45:
        at += ONE
    stop = _past_digits(data, at, end)
    if stop == at or (data[at] == 48 and stop > at + ONE):
        return UNSOUND
    at = stop
    if at < end and data[at] == 46:
        stop = _past_digits(data, at + ONE, end)
        if stop == at + ONE:
            return UNSOUND
        at = stop
    if at < end and (data[at] == 101 or data[at] == 69):
        at += ONE
        if at < end and (data[at] == 43 or data[at] == 45):
            at += ONE
        stop = _past_digits(data, at, end)
        if stop == at:
            return UNSOUND
        at = stop
    return at


@kernel(uint64(BYTES, uint64, uint64))
def _past_plain(data: Any, at: Any, end: Any) -> Any:
    """Behind a number, `true`, `false` or `null`."""
    place, stop = np.int64(at), np.int64(end)
    if begins(data, place, stop, _TRUE) or begins(data, place, stop, _NULL):
        return at + np.uint64(4)
    if begins(data, place, stop, _FALSE):
        return at + np.uint64(5)
    return _past_number(data, at, end)


@kernel(boolean(BYTES, uint64, uint64, BYTES, writable("uint8"), writable("uint64")))
def _line(data: Any, at: Any, end: Any, field: Any, out: Any, places: Any) -> Any:
    """The text of one object, appended to `out` from `places[1]` on, which moves to its end."""
    start = places[1]
    stop = start
    found = False
    at += ONE
    while True:
        at = _past_space(data, at, end)
        if at >= end or data[at] != 34:
            return False
        name = at + ONE
        at = name
        while at < end and _STOP[data[at]] == 0:
            at += ONE
        if at >= end or data[at] != 34:
            return False
        wanted = at - name == np.uint64(len(field)) and begins(data, np.int64(name), np.int64(at), field)
        at = _past_space(data, at + ONE, end)
        if at >= end or data[at] != 58:
            return False
        at = _past_space(data, at + ONE, end)
        if at < end and data[at] == 34:
            if wanted and found:
                return False
            places[1] = stop
            if not _string(data, at + ONE, end, out, places):
                return False
            at = places[0]
            if wanted:
                found = True
                stop = places[1]
        elif wanted:
            return False
        else:
            at = _past_plain(data, at, end)
            if at == UNSOUND:
                return False
        at = _past_space(data, at, end)
        if at >= end:
            return False
        if data[at] == 125:
            places[1] = stop
            return found and at + ONE == end
        if data[at] != 44:
            return False
        at += ONE


@kernel(int64(BYTES, EDGES, EDGES, BYTES, writable("uint8"), writable("int64")))
def read_texts(data: Any, starts: Any, ends: Any, field: Any, out: Any, offsets: Any) -> int:
    """The string named `field` of every line `data[starts[i]:ends[i]]` one after the other in `out`, which is as long as `data`, cut by `offsets`.

    Every line begins with a brace. Returns how many lines were read: fewer than there are where one is not plainly sound. `data` is valid UTF-8.
    """
    places = np.zeros(2, np.uint64)
    for i in range(len(starts)):
        offsets[i] = np.int64(places[1])
        if not _line(data, np.uint64(starts[i]), np.uint64(ends[i]), field, out, places):
            return i
    offsets[len(starts)] = np.int64(places[1])
    return len(starts)
