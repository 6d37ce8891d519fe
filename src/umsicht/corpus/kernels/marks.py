"""Traces of how a text came here: characters lost or decoded twice, escapes and tags left in it, control strings of chat formats, encoded data."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from umsicht.corpus.kernels.jit import inline, int64, kernel, readable, void, writable
from umsicht.corpus.kernels.shingles import EDGES
from umsicht.corpus.kernels.words import BYTES

MARKS = ("broken", "entities", "tags", "escapes", "controls", "encoded", "hyphens")
"""Columns of `find_marks`. `broken`: replacement characters, question marks inside words, pairs that UTF-8 read as Windows-1252 leaves; `entities`:
`&amp;`; `tags`: of HTML; `escapes`: `\\n` and `\\u00e4` written out; `controls`: `<|…|>`, `[INST]` and their like; `encoded`: bytes in runs of more than
64 letters and digits; `hyphens`: words that a line end divides."""

TAGS = (
    *(
        "a",
        "b",
        "i",
        "p",
        "br",
        "hr",
        "em",
        "td",
        "th",
        "tr",
        "ul",
        "ol",
        "li",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
    ),
    *(
        "div",
        "img",
        "sup",
        "sub",
        "ref",
        "pre",
        "span",
        "font",
        "code",
        "table",
        "center",
        "strong",
        "script",
        "style",
    ),
)
CONTROLS = ("bos", "eos", "pad", "unk", "mask", "end_of_turn", "start_of_turn", "endoftext")
_PLAIN, _LOOK = 1, 2


@functools.cache
def mark_bytes() -> npt.NDArray[np.uint8]:
    """For every byte whether it may stand in encoded data, or wants a look."""
    kinds = np.zeros(256, np.uint8)
    kinds[list(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=")] = _PLAIN
    kinds[[*b"&<[\\?-", 0xC3, 0xEF]] = _LOOK
    return kinds


def _packed(name: str) -> int:
    """The last eight letters of a name as one number."""
    value = 0
    for letter in name.encode():
        value = ((value << 8) | letter) & 0xFFFFFFFFFFFFFFFF
    return value


@functools.cache
def mark_names() -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Names of tags and of control strings, packed."""
    return np.array(sorted(map(_packed, TAGS)), np.uint64), np.array(
        sorted(map(_packed, CONTROLS)), np.uint64
    )


@inline
def _is_letter(b: Any) -> Any:
    return b | 0x20 >= 97 and b | 0x20 <= 122


@inline
def _is_name(b: Any) -> Any:
    return (b | 0x20 >= 97 and b | 0x20 <= 122) or (b >= 48 and b <= 57) or b == 95


@inline
def _is_hex(b: Any) -> Any:
    return (b >= 48 and b <= 57) or (b | 0x20 >= 97 and b | 0x20 <= 102)


@kernel(int64(BYTES, int64, int64))
def _entity(buffer: Any, i: int, end: int) -> int:
    """`&name;`, `&#39;`."""
    k = i + 1
    while k < end and k < i + 10 and (_is_name(buffer[k]) or buffer[k] == 35):
        k += 1
    return 1 if k < end and k > i + 1 and buffer[k] == 59 else 0


@kernel(int64(BYTES, int64, int64, readable("uint64"), readable("uint64")))
def _tag(buffer: Any, i: int, end: int, tags: Any, controls: Any) -> int:
    """1 for a tag of HTML, 2 for a control string, 0 for another sign."""
    k: Any = i + 1
    if k < end and buffer[k] == 124:
        k += 1
        while k < end and k < i + 40 and _is_name(buffer[k]):
            k += 1
        return 2 if k + 1 < end and k > i + 2 and buffer[k] == 124 and buffer[k + 1] == 62 else 0
    if k < end and buffer[k] == 47:
        k += 1
    name = np.uint64(0)
    while k < end and k < i + 20 and _is_name(buffer[k]):
        small = buffer[k] | 0x20 if buffer[k] >= 65 and buffer[k] <= 90 else buffer[k]
        name = (name << np.uint64(8)) | np.uint64(small)
        k += 1
    if k >= end or name == np.uint64(0):
        return 0
    for known in controls:
        if name == known and buffer[k] == 62:
            return 2
    for known in tags:
        if name == known:
            while k < end and k < i + 300 and buffer[k] != 62 and buffer[k] != 60:
                k += 1
            return 1 if k < end and buffer[k] == 62 else 0
    return 0


@kernel(int64(BYTES, int64, int64))
def _escape(buffer: Any, i: int, end: int) -> int:
    """A line end or a code point that is written out. (`\\nabla` and `\\nu` are mathematics.)"""
    if i + 1 >= end:
        return 0
    if buffer[i + 1] == 110:
        return 0 if i + 2 < end and buffer[i + 2] >= 97 and buffer[i + 2] <= 122 else 1
    if buffer[i + 1] != 117 or i + 5 >= end:
        return 0
    for k in range(i + 2, i + 6):
        if not _is_hex(buffer[k]):
            return 0
    return 1


@kernel(int64(BYTES, int64, int64, int64))
def _lost(buffer: Any, i: int, start: int, end: int) -> int:
    """A question mark inside a word that begins no row of parameters."""
    if i == start or i + 1 >= end or not _is_letter(buffer[i - 1]):
        return 0
    if buffer[i + 1] < 97 or buffer[i + 1] > 122:
        return 0
    k = i + 1
    while k < end and k < i + 40 and _is_name(buffer[k]):
        k += 1
    return 0 if k < end and (buffer[k] == 61 or buffer[k] == 47 or buffer[k] == 38) else 1


@kernel(int64(BYTES, int64, int64))
def _twice(buffer: Any, i: int, end: int) -> int:
    """A replacement character, or what is left of a character that was decoded twice (Ã with a sign after it, â€)."""
    if i + 2 >= end:
        return 0
    a, b, c = buffer[i], buffer[i + 1], buffer[i + 2]
    if a == 0xEF:
        return 1 if b == 0xBF and c == 0xBD else 0
    if b == 0x82 or b == 0x83:
        return 1 if c == 0xC2 or c == 0xC5 or c == 0xC6 or c == 0xCB or c == 0xE2 else 0
    return 1 if b == 0xA2 and ((c == 0xE2 and i + 3 < end and buffer[i + 3] == 0x82) or c == 0xC2) else 0


@kernel(int64(BYTES, int64, int64))
def _instruction(buffer: Any, i: int, end: int) -> int:
    """`[INST]` and `[/INST]`."""
    k = i + 2 if i + 1 < end and buffer[i + 1] == 47 else i + 1
    if k + 4 >= end:
        return 0
    found = buffer[k] == 73 and buffer[k + 1] == 78 and buffer[k + 2] == 83 and buffer[k + 3] == 84
    return 1 if found and buffer[k + 4] == 93 else 0


@kernel(int64(BYTES, int64, int64, int64))
def _hyphen(buffer: Any, i: int, start: int, end: int) -> int:
    """A hyphen between a letter and a line end after which a small letter follows."""
    if i == start or i + 2 >= end or not _is_letter(buffer[i - 1]) or buffer[i + 1] != 10:
        return 0
    return 1 if (buffer[i + 2] >= 97 and buffer[i + 2] <= 122) or buffer[i + 2] >= 0xC3 else 0


@kernel(int64(BYTES, int64, int64, readable("uint8")))
def _encoded(buffer: Any, start: int, end: int, kinds: Any) -> int:
    """Bytes in runs of more than 64 letters and digits that hold four digits at least (long words hold none). Such a run covers every 64th byte."""
    found = 0
    place: Any = start + 63
    while place < end:
        if kinds[buffer[place]] != 1:
            place += 64
            continue
        first, last = place, place + 1
        while first > start and kinds[buffer[first - 1]] == 1:
            first -= 1
        while last < end and kinds[buffer[last]] == 1:
            last += 1
        if last - first > 64:
            digits = 0
            for k in range(first, last):
                digits += buffer[k] >= 48 and buffer[k] <= 57
            found += last - first if digits >= 4 else 0
        place += 64 * ((last - place + 63) // 64)
    return found


@kernel(
    void(
        BYTES, EDGES, EDGES, readable("uint8"), readable("uint64"), readable("uint64"), writable("float32", 2)
    )
)
def find_marks(buffer: Any, starts: Any, ends: Any, kinds: Any, tags: Any, controls: Any, out: Any) -> None:
    """Fill `out [texts, 7]` with the columns named in `MARKS`."""
    for row in range(len(starts)):
        start, end = starts[row], ends[row]
        found = out[row]
        found[:] = 0
        for i in range(start, end):
            b = buffer[i]
            if kinds[b] < 2:
                continue
            if b == 45:
                found[6] += _hyphen(buffer, i, start, end)
            elif b == 38:
                found[1] += _entity(buffer, i, end)
            elif b == 60:
                known = _tag(buffer, i, end, tags, controls)
                found[2] += known == 1
                found[4] += known == 2
            elif b == 92:
                found[3] += _escape(buffer, i, end)
            elif b == 63:
                found[0] += _lost(buffer, i, start, end)
            elif b == 91:
                found[4] += _instruction(buffer, i, end)
            else:
                found[0] += _twice(buffer, i, end)
        found[5] = _encoded(buffer, start, end, kinds)
