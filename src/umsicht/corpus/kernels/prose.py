"""A short sample of a text's running prose for language identification: no markup, no code fences, no addresses, no numbers.

The twin in `oracle.py` says the same in regular expressions, at a hundred times the cost.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from umsicht.corpus.kernels.jit import boolean, inline, int64, kernel, readable, void, writable
from umsicht.corpus.kernels.shingles import EDGES
from umsicht.corpus.kernels.words import BYTES, begins

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

LOOKED_AT = 1_000
LOOKED_AT_MARKUP = 6_000
"""Bytes of a text that are looked at; Markdown is full of code and needs more."""
WINDOW = 200
"""Bytes that hold half a sample where there is little markup and a letter takes no more than two."""
LONGEST_WORD = 40
SAMPLE = 160
"""Characters of a sample, one more at most."""
SAMPLE_BYTES = 4 * (SAMPLE + 1)

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
def _close(out: Any, n: Any, gap: Any) -> Any:
    """One space for a gap, but none at the head. Returns how many bytes there are."""
    if gap and n > 0:
        out[n] = 32
        n += 1
    return n


@inline
def _size(b: Any) -> Any:
    return 1 if b < 0xC0 else 2 if b < 0xE0 else 3 if b < 0xF0 else 4


@kernel(int64(BYTES, int64, int64))
def _code(buffer: Any, at: int, stop: int) -> int:
    """The character at a place; 0xFFFF for one beyond the basic plane or a broken one."""
    b: Any = np.int64(buffer[at])
    if b < 0x80:
        return b  # type: ignore[no-any-return]  # an int64 once compiled
    size = _size(b)
    if size == 1 or size == 4 or at + size > stop:
        return 0xFFFF
    code = b & (0xFF >> (size + 1))
    for k in range(1, size):
        code = (code << 6) | (np.int64(buffer[at + k]) & 0x3F)
    return code  # type: ignore[no-any-return]


@kernel(int64(BYTES, int64, int64, int64))
def _forward(buffer: Any, at: int, stop: int, characters: int) -> int:
    """The place so many characters on."""
    while at < stop and characters > 0:
        at += _size(buffer[at])
        characters -= 1
    return min(at, stop)


@kernel(int64(BYTES, int64, int64, readable("uint8")))
def _token_end(buffer: Any, at: int, stop: int, kinds: Any) -> int:
    while at < stop and kinds[_code(buffer, at, stop)] & 32 == 0:
        at += _size(buffer[at])
    return min(at, stop)


_HTTP = np.frombuffer(b"http", np.uint8)
_COLON = np.frombuffer(b"://", np.uint8)
_WWW = np.frombuffer(b"www.", np.uint8)


@kernel(int64(BYTES, int64, int64, readable("uint8"), boolean))
def _skip(buffer: Any, at: int, stop: int, kinds: Any, token_start: bool) -> int:
    """Where the markup that begins at a place ends; the place itself where none begins."""
    b = buffer[at]
    if token_start:
        end = _token_end(buffer, at, stop, kinds)
        for k in range(at + 1, end - 1):
            if buffer[k] == 64:
                return end
    if b == 60:
        q, n = at + 1, 0
        while q < stop and n <= 300 and buffer[q] != 60 and buffer[q] != 62:
            q += _size(buffer[q])
            n += 1
        if q < stop and 1 <= n <= 300 and buffer[q] == 62:
            return q + 1
    elif b == 96:
        q = at + 1
        while q < stop and buffer[q] != 96 and buffer[q] != 10:
            q += 1
        if q < stop and buffer[q] == 96:
            return q + 1
    elif b == 123:
        q, n = at + 1, 0
        while q < stop and n <= 100 and buffer[q] != 123 and buffer[q] != 125 and buffer[q] != 10:
            q += _size(buffer[q])
            n += 1
        if q < stop and n <= 100 and buffer[q] == 125:
            return q + 1
    elif b == 93:
        if at + 1 < stop and buffer[at + 1] == 40:
            q = at + 2
            while (
                q < stop and buffer[q] != 40 and buffer[q] != 41 and kinds[_code(buffer, q, stop)] & 32 == 0
            ):
                q += _size(buffer[q])
            if q < stop and buffer[q] == 41:
                return q + 1
    elif b == 104:
        if begins(buffer, at, stop, _HTTP):
            q = at + 4
            if q < stop and buffer[q] == 115:
                q += 1
            if begins(buffer, q, stop, _COLON):
                end = _token_end(buffer, q + 3, stop, kinds)
                if end > q + 3:
                    return end
    elif b == 119:
        if begins(buffer, at, stop, _WWW):
            end = _token_end(buffer, at + 4, stop, kinds)
            if end > at + 4:
                return end
    elif b == 38:
        q = at + 1
        if q < stop and buffer[q] == 35:
            q += 1
        first = q
        while q < stop and buffer[q] < 0x80 and kinds[buffer[q]] & 64:
            q += 1
        if q > first and q < stop and buffer[q] == 59:
            return q + 1
    while at < stop and buffer[at] < 0x80 and kinds[buffer[at]] & 128:
        at += 1
    return at


@kernel(int64(BYTES, int64, int64, int64, readable("uint8"), readable("uint8"), writable("uint8")))
def _plain(buffer: Any, start: int, stop: int, wanted: int, kinds: Any, ways: Any, out: Any) -> int:
    """Text without markup, white space runs as one space; no more once there are so many characters. Returns its bytes."""
    addresses = False
    for i in range(start, stop):
        addresses |= buffer[i] == 64
    n: Any = 0
    at: Any = start
    gap = False
    before = True
    left = wanted
    while at < stop and left > 0:
        b = buffer[at]
        way = ways[b]
        if way == 2:
            gap = before = True
            at += 1
            continue
        if way == 3 and (at + 1 == stop or buffer[at + 1] != (116 if b == 104 else 119)):
            way = np.uint8(1)
        if way == 1 and not (addresses and before):
            n = _close(out, n, gap)
            gap = before = False
            out[n] = b
            n += 1
            at += 1
            left -= 1
            while at < stop and left > 0 and ways[buffer[at]] == 1:
                out[n] = buffer[at]
                n += 1
                at += 1
                left -= 1
            continue
        code = _code(buffer, at, stop)
        kind = kinds[code]
        if kind & 32:
            gap = before = True
            at += _size(buffer[at])
            continue
        end = at
        if code < 128 and (kind & 64 == 0 or kind & 128 or code == 104 or code == 119):
            end = _skip(buffer, at, stop, kinds, addresses and before)
        elif addresses and before:
            end = _skip(buffer, at, stop, kinds, True)
        before = False
        if end > at:
            gap = True
            at = end
            continue
        n = _close(out, n, gap)
        gap = False
        left -= 1
        end = min(at + _size(buffer[at]), stop)
        while at < end:
            out[n] = buffer[at]
            n += 1
            at += 1
    return n  # type: ignore[no-any-return]


@kernel(int64(BYTES, int64, int64, writable("uint8")))
def _unfenced(buffer: Any, start: int, stop: int, out: Any) -> int:
    """Lines outside of code fences; each fence leaves an empty line. A fence that is never closed is no fence."""
    n: Any = 0
    line: Any = start
    while line < stop:
        end = line
        while end < stop and buffer[end] != 10:
            end += 1
        sign = buffer[line]
        run: Any = 0
        if sign == 96 or sign == 126:
            while line + run < end and buffer[line + run] == sign:
                run += 1
        after: Any = 0
        if run >= 3:
            inner = end + 1
            while inner < stop and after == 0:
                last = inner
                while last < stop and buffer[last] != 10:
                    last += 1
                count: Any = 0
                while inner + count < last and buffer[inner + count] == sign:
                    count += 1
                if count >= run:
                    k = inner + count
                    while k < last and (buffer[k] == 96 or buffer[k] == 126):
                        k += 1
                    while k < last and (buffer[k] == 32 or buffer[k] == 9 or buffer[k] == 13):
                        k += 1
                    if k == last:
                        after = last
                inner = last + 1
        if after > 0:
            end = after
        else:
            for k in range(line, end):
                out[n] = buffer[k]
                n += 1
        if end < stop:
            out[n] = 10
            n += 1
        line = end + 1
    return n  # type: ignore[no-any-return]


@kernel(int64(BYTES, int64, readable("uint8"), writable("uint8")))
def _without_names(buffer: Any, size: int, kinds: Any, out: Any) -> int:
    """Text without acronyms, dotted and mixed-case names: what code looks like inside prose. White space runs stay one space."""
    n: Any = 0
    at: Any = 0
    gap = False
    while at < size:
        code = _code(buffer, at, size)
        if kinds[code] & 64 == 0 and code != 46 and code != 45:
            end = min(at + _size(buffer[at]), size)
            if code == 32:
                gap = True
                at = end
                continue
            n = _close(out, n, gap)
            gap = False
            while at < end:
                out[n] = buffer[at]
                n += 1
                at += 1
            continue
        end = at
        core = at
        capital = name = waiting = joined = word = False
        while end < size:
            code = _code(buffer, end, size)
            kind = kinds[code] & 64
            if kind == 0 and code != 46 and code != 45:
                break
            if joined and kind:
                name = True
            upper = code >= 65 and code <= 90
            if code != 46 and code != 45:
                name |= waiting or (capital and upper)
            joined = word and (code == 46 or code == 95)
            waiting |= capital and code == 46
            capital |= upper
            word = kind != 0
            end += _size(buffer[end])
            if code != 46 and code != 45:
                core = end
        end = min(end, size)
        if name:
            gap = True
            at = core
            while at < end and (buffer[at] == 46 or buffer[at] == 45):
                n = _close(out, n, gap)
                gap = False
                out[n] = buffer[at]
                n += 1
                at += 1
            continue
        n = _close(out, n, gap)
        gap = False
        while at < end:
            out[n] = buffer[at]
            n += 1
            at += 1
    return n  # type: ignore[no-any-return]


@kernel(int64(BYTES, int64, int64, int64))
def _whole(buffer: Any, start: int, stop: int, end: int) -> int:
    """The place, moved back to where a character begins."""
    while stop < end and stop > start and buffer[stop] & 0xC0 == 0x80:
        stop -= 1
    return stop


@kernel(boolean(BYTES, int64, int64))
def _has_marks(buffer: Any, start: int, stop: int) -> bool:
    """Three back-ticks or tildes in a row: Markdown with code."""
    marks = np.uint8(0)
    for i in range(np.uint64(start), np.uint64(stop)):
        marks |= np.uint8(buffer[i] == 96) | np.uint8(buffer[i] == 126)
    if marks == 0:
        return False
    found = False
    for i in range(start, stop - 2):
        b = buffer[i]
        found |= (b == 96 or b == 126) and buffer[i + 1] == b and buffer[i + 2] == b
    return found


@kernel(int64(BYTES, int64, int64))
def _next_word(buffer: Any, at: int, stop: int) -> int:
    """Where a word begins after a place; the head of the next character where no space is near."""
    for i in range(at, min(at + LONGEST_WORD, stop)):
        if buffer[i] == 32 or buffer[i] == 10:
            return i + 1
    while at < stop and buffer[at] & 0xC0 == 0x80:
        at += 1
    return at


@kernel(void(readable("uint8"), int64, int64, readable("uint8"), writable("int32")))
def _count_scripts(data: Any, at: int, stop: int, kinds: Any, scripts: Any) -> None:
    """Letters by script."""
    while at < stop:
        number = kinds[_code(data, at, stop)] & 31
        if number > 0:
            scripts[number] += 1
        at += _size(data[at])


@kernel(int64(BYTES, int64))
def _characters(buffer: Any, size: int) -> int:
    found: Any = 0
    for i in range(size):
        found += (buffer[i] & 0xC0) != 0x80
    return found  # type: ignore[no-any-return]


@kernel(
    void(
        BYTES,
        EDGES,
        EDGES,
        readable("uint8"),
        readable("uint8"),
        writable("uint8"),
        writable("int64"),
        writable("int64"),
        writable("int32", 2),
    )
)
def sample_many(
    buffer: Any,
    starts: Any,
    ends: Any,
    kinds: Any,
    ways: Any,
    out: Any,
    offsets: Any,
    seconds: Any,
    scripts: Any,
) -> None:
    """The sample of every text one after the other in `out`, cut by `offsets [texts + 1]`, and its letters by script (`scripts [texts, 26]`).

    A sample that would be longer than `SAMPLE` characters is its first half and as much from the middle of what was looked at, which begins in `out`
    at `seconds [texts]`; with other samples that is where they begin. Mostly two short windows hold enough for the two halves.
    """
    first = np.empty(LOOKED_AT_MARKUP + 8, np.uint8)
    plain = np.empty(LOOKED_AT_MARKUP + 8, np.uint8)
    half = SAMPLE // 2
    total: Any = 0
    for row in range(len(starts)):
        offsets[row] = total
        seconds[row] = total
        start, end = starts[row], ends[row]
        stop = _whole(buffer, start, min(end, start + LOOKED_AT_MARKUP), end)
        marks = _has_marks(buffer, start, stop)
        if not marks and end - start >= 2 * WINDOW:
            stop = _whole(buffer, start, min(end, start + LOOKED_AT), end)
            size = _plain(buffer, start, _whole(buffer, start, start + WINDOW, end), half, kinds, ways, plain)
            middle = _next_word(buffer, (start + stop) // 2, stop)
            again = _plain(
                buffer,
                middle,
                _whole(buffer, middle, min(middle + WINDOW, stop), end),
                half,
                kinds,
                ways,
                first,
            )
            if _characters(plain, size) >= half and _characters(first, again) >= half:
                for k in range(_forward(plain, 0, size, half)):
                    out[total] = plain[k]
                    total += 1
                out[total] = 32
                total += 1
                seconds[row] = total
                for k in range(_forward(first, 0, again, half)):
                    out[total] = first[k]
                    total += 1
                _count_scripts(out, offsets[row], total, kinds, scripts[row])
                continue
        if marks:
            size = _unfenced(buffer, start, stop, first)
            size = _plain(first, 0, size, size, kinds, ways, plain)
            short = _without_names(plain, size, kinds, first)
            full = _characters(plain, size)
            if _characters(first, short) >= max(20, full // 3):
                size = short
                plain, first = first, plain
        else:
            stop = _whole(buffer, start, min(end, start + LOOKED_AT), end)
            size = _plain(buffer, start, stop, stop - start, kinds, ways, plain)
        full = _characters(plain, size)
        cut = size
        again = size
        if full > SAMPLE:
            cut, again = half, full // 2
            if full < size:
                cut, again = _forward(plain, 0, size, cut), _forward(plain, 0, size, again)
                size = _forward(plain, again, size, half)
            else:
                size = again + half
        for k in range(cut):
            out[total] = plain[k]
            total += 1
        if again < size:
            out[total] = 32
            total += 1
            seconds[row] = total
            for k in range(again, size):
                out[total] = plain[k]
                total += 1
        _count_scripts(out, offsets[row], total, kinds, scripts[row])
    offsets[len(starts)] = total
