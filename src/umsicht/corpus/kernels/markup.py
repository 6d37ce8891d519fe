"""Running text without what is no prose: markup, addresses, code fences, names of programs."""

from __future__ import annotations

from typing import Any

import numpy as np

from umsicht.corpus.kernels.characters import code_at, size_of
from umsicht.corpus.kernels.jit import boolean, inline, int64, kernel, readable, writable
from umsicht.corpus.kernels.words import BYTES, begins


@inline
def _close(out: Any, n: Any, gap: Any) -> Any:
    """One space for a gap, but none at the head. Returns how many bytes there are."""
    if gap and n > 0:
        out[n] = 32
        n += 1
    return n


@inline
def _copy(buffer: Any, at: Any, end: Any, out: Any, n: Any) -> Any:
    """Bytes as they are. Returns how many there are now."""
    while at < end:
        out[n] = buffer[at]
        n += 1
        at += 1
    return n


@kernel(int64(BYTES, int64, int64, readable("uint8")))
def _token_end(buffer: Any, at: int, stop: int, kinds: Any) -> int:
    while at < stop and kinds[code_at(buffer, at, stop)] & 32 == 0:
        at += size_of(buffer[at])
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
            q += size_of(buffer[q])
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
            q += size_of(buffer[q])
            n += 1
        if q < stop and n <= 100 and buffer[q] == 125:
            return q + 1
    elif b == 93:
        if at + 1 < stop and buffer[at + 1] == 40:
            q = at + 2
            while (
                q < stop and buffer[q] != 40 and buffer[q] != 41 and kinds[code_at(buffer, q, stop)] & 32 == 0
            ):
                q += size_of(buffer[q])
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
def plain_text(buffer: Any, start: int, stop: int, wanted: int, kinds: Any, ways: Any, out: Any) -> int:
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
        code = code_at(buffer, at, stop)
        kind = kinds[code]
        if kind & 32:
            gap = before = True
            at += size_of(buffer[at])
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
        end = min(at + size_of(buffer[at]), stop)
        n = _copy(buffer, at, end, out, n)
        at = end
    return n  # type: ignore[no-any-return]


@kernel(int64(BYTES, int64, int64, writable("uint8")))
def unfenced(buffer: Any, start: int, stop: int, out: Any) -> int:
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
def without_names(buffer: Any, size: int, kinds: Any, out: Any) -> int:
    """Text without acronyms, dotted and mixed-case names: what code looks like inside prose. White space runs stay one space."""
    n: Any = 0
    at: Any = 0
    gap = False
    while at < size:
        code = code_at(buffer, at, size)
        if kinds[code] & 64 == 0 and code != 46 and code != 45:
            end = min(at + size_of(buffer[at]), size)
            if code == 32:
                gap = True
                at = end
                continue
            n = _close(out, n, gap)
            gap = False
            n = _copy(buffer, at, end, out, n)
            at = end
            continue
        end = at
        core = at
        capital = name = waiting = joined = word = False
        while end < size:
            code = code_at(buffer, end, size)
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
            end += size_of(buffer[end])
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
        n = _copy(buffer, at, end, out, n)
        at = end
    return n  # type: ignore[no-any-return]
