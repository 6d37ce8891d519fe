"""A short sample of a text's running prose for language identification: no markup, no code fences, no addresses, no numbers.

The twin in `oracle.py` says the same in regular expressions, at a hundred times the cost.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from umsicht.corpus.kernels.characters import code_at, count_characters, forward, size_of
from umsicht.corpus.kernels.jit import boolean, int64, kernel, readable, void, writable
from umsicht.corpus.kernels.markup import plain_text, unfenced, without_names
from umsicht.corpus.kernels.shingles import EDGES
from umsicht.corpus.kernels.words import BYTES

LOOKED_AT = 1_000
LOOKED_AT_MARKUP = 6_000
"""Bytes of a text that are looked at; Markdown is full of code and needs more."""
WINDOW = 200
"""Bytes that hold half a sample where there is little markup and a letter takes no more than two."""
LONGEST_WORD = 40
SAMPLE = 160
"""Characters of a sample, one more at most."""
SAMPLE_BYTES = 4 * (SAMPLE + 1)


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
        number = kinds[code_at(data, at, stop)] & 31
        if number > 0:
            scripts[number] += 1
        at += size_of(data[at])


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
            size = plain_text(
                buffer, start, _whole(buffer, start, start + WINDOW, end), half, kinds, ways, plain
            )
            middle = _next_word(buffer, (start + stop) // 2, stop)
            again = plain_text(
                buffer,
                middle,
                _whole(buffer, middle, min(middle + WINDOW, stop), end),
                half,
                kinds,
                ways,
                first,
            )
            if count_characters(plain, size) >= half and count_characters(first, again) >= half:
                for k in range(forward(plain, 0, size, half)):
                    out[total] = plain[k]
                    total += 1
                out[total] = 32
                total += 1
                seconds[row] = total
                for k in range(forward(first, 0, again, half)):
                    out[total] = first[k]
                    total += 1
                _count_scripts(out, offsets[row], total, kinds, scripts[row])
                continue
        if marks:
            size = unfenced(buffer, start, stop, first)
            size = plain_text(first, 0, size, size, kinds, ways, plain)
            short = without_names(plain, size, kinds, first)
            full = count_characters(plain, size)
            if count_characters(first, short) >= max(20, full // 3):
                size = short
                plain, first = first, plain
        else:
            stop = _whole(buffer, start, min(end, start + LOOKED_AT), end)
            size = plain_text(buffer, start, stop, stop - start, kinds, ways, plain)
        full = count_characters(plain, size)
        cut = size
        again = size
        if full > SAMPLE:
            cut, again = half, full // 2
            if full < size:
                cut, again = forward(plain, 0, size, cut), forward(plain, 0, size, again)
                size = forward(plain, again, size, half)
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
