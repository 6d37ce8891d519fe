"""Counting lines of code in ASCII text by their shape. The regular expressions in `label/code.py` are the twin that tests hold it to, and what decides
about all other texts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from umsicht.corpus.kernels.jit import boolean, int64, kernel, readable, void, writable
from umsicht.corpus.kernels.shingles import EDGES
from umsicht.corpus.kernels.words import BYTES, begins

SPACE, WORD, TARGET, CALLEE, OF_CODE, BRACKET, SIGN, OPERATOR = (1 << k for k in range(8))
"""White space; parts of words; what is assigned to; what is called; what makes a keyword code; brackets; signs; signs that go before an equals sign."""
MOST_LINES = 40
"""About so many lines, evenly taken, decide."""


def _kinds() -> Any:
    kinds = np.zeros(256, np.uint16)
    word = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
    for signs, kind in (
        (b"\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f ", SPACE),
        (word, WORD | TARGET | CALLEE),
        (b".[]'\"", TARGET),
        (b".>-", CALLEE),
        (b"(){}[];:=.", OF_CODE),
        (b"{}()[]", BRACKET),
        (b"{}()[];=<>_&|\"'.:", SIGN),
        (b"-+*/|&^%:", OPERATOR),
    ):
        kinds[list(signs)] |= kind
    return kinds


CODE_KINDS = _kinds()


@kernel(boolean(BYTES, int64, int64, BYTES, EDGES))
def _among(buffer: Any, start: int, end: int, words: Any, edges: Any) -> bool:
    """Whether a word is one of `words`, which lie one after the other, cut by `edges`."""
    size = end - start
    for i in range(len(edges) - 1):
        if edges[i + 1] - edges[i] == size and buffer[start] == words[edges[i]]:
            same = True
            for k in range(size):
                same &= buffer[start + k] == words[edges[i] + k]
            if same:
                return True
    return False


def _listed(text: str) -> tuple[Any, Any]:
    words = text.split()
    edges = np.concatenate([[0], np.cumsum([len(word) for word in words])]).astype(np.int64)
    return np.frombuffer("".join(words).encode(), np.uint8), edges


KEYWORDS = """def class import from return if elif else for while try except finally with raise yield async await lambda pass
    assert del global print self public private protected static void int const let var function export package func fn
    use struct enum impl trait interface namespace template typedef SELECT INSERT CREATE UPDATE FROM WHERE end begin
    module require puts echo fi done do then case switch break continue goto throw throws new extends implements"""
DIRECTIVES = "include define ifdef ifndef endif pragma"
_KEYWORDS, _KEYWORD_EDGES = _listed(KEYWORDS)
_DIRECTIVES, _DIRECTIVE_EDGES = _listed(DIRECTIVES)
_PHP, _REMARK = np.frombuffer(b"<?php", np.uint8), np.frombuffer(b"<!--", np.uint8)
_QUOTES, _APOSTROPHES = np.frombuffer(b'"""', np.uint8), np.frombuffer(b"'''", np.uint8)


@kernel(int64(BYTES, int64, int64, int64))
def _past(buffer: Any, at: int, end: int, kind: int) -> int:
    """The first place from here on that is not of a kind."""
    while at < end and CODE_KINDS[buffer[at]] & kind:
        at += 1
    return at


@kernel(boolean(BYTES, int64, int64))
def _keyword(buffer: Any, start: int, end: int) -> bool:
    """A line that begins with a keyword and goes on as code does."""
    stop = _past(buffer, start, end, 2)
    if not _among(buffer, start, stop, _KEYWORDS, _KEYWORD_EDGES):
        return False
    found = stop == end
    for i in range(stop, end):
        found |= CODE_KINDS[buffer[i]] & 16 != 0
    return found


@kernel(boolean(BYTES, int64, int64))
def _assigns(buffer: Any, start: int, end: int) -> bool:
    at = _past(buffer, start, end, 4)
    if at == start:
        return False
    at = _past(buffer, at, end, 1)
    if at < end and CODE_KINDS[buffer[at]] & 128:
        at += 1
    elif at + 1 < end and (buffer[at] == 60 or buffer[at] == 62) and buffer[at + 1] == buffer[at]:
        at += 2
    if at >= end or buffer[at] != 61:
        return False
    return _past(buffer, at + 1, end, 1) < end


@kernel(boolean(BYTES, int64, int64))
def _calls(buffer: Any, start: int, end: int) -> bool:
    at = _past(buffer, start, end, 8)
    if at == start or at >= end - 1 or buffer[at] != 40:
        return False
    inner = False
    for i in range(at + 1, end - 1):
        inner |= buffer[i] == 40 or buffer[i] == 41
    return not inner and buffer[end - 1] == 41


@kernel(boolean(BYTES, int64, int64))
def _brackets(buffer: Any, start: int, end: int) -> bool:
    at = _past(buffer, start, end, 32)
    return at > start and (at == end or (at == end - 1 and buffer[at] == 44))


@kernel(boolean(BYTES, int64, int64))
def _decorator(buffer: Any, start: int, end: int) -> bool:
    at = start + 1
    while at < end and (CODE_KINDS[buffer[at]] & 2 or buffer[at] == 46):
        at += 1
    if at == start + 1:
        return False
    return at == end or (buffer[at] == 40 and at < end - 1 and buffer[end - 1] == 41)


@kernel(boolean(BYTES, int64, int64))
def _entry(buffer: Any, start: int, end: int) -> bool:
    """A quoted name, a colon, and something after it. The end is that of the line, white space included."""
    at = start + 1
    while at < end and buffer[at] != 34 and buffer[at] != 39:
        at += 1
    if at >= end:
        return False
    at = _past(buffer, at + 1, end, 1)
    return at < end - 1 and buffer[at] == 58


@kernel(boolean(BYTES, int64, int64, int64))
def _shaped(buffer: Any, start: int, end: int, tail: int) -> bool:
    """Whether a line has the shape of code; `start` and `end` are without white space, `tail` is its true end."""
    first, last = buffer[start], buffer[end - 1]
    if last == 59 or last == 123 or last == 125:
        return True
    if last == 58:
        before = end - 1
        while before > start and CODE_KINDS[buffer[before - 1]] & 1:
            before -= 1
        if before > start and buffer[before - 1] == 41:
            return True
    second = buffer[start + 1] if start + 1 < end else np.uint8(0)
    if CODE_KINDS[first] & 2:
        if _keyword(buffer, start, end):
            return True
    elif (
        (first == 47 and (second == 47 or second == 42))
        or (first == 42 and second == 47)
        or (first == 35 and second == 33)
        or begins(buffer, start, end, _PHP)
        or begins(buffer, start, end, _REMARK)
        or (first == 45 and second == 45 and start + 2 < tail and CODE_KINDS[buffer[start + 2]] & 1 != 0)
    ):
        return True
    elif first == 35:
        at = _past(buffer, start + 1, end, 1)
        stop = _past(buffer, at, end, 2)
        return stop > at and _among(buffer, at, stop, _DIRECTIVES, _DIRECTIVE_EDGES)
    elif first == 64:
        return _decorator(buffer, start, end)
    elif (first == 34 or first == 39) and _entry(buffer, start, tail):
        return True
    if _assigns(buffer, start, end):
        return True
    bracket = last == 40 or last == 41 or last == 91 or last == 93 or last == 44
    if bracket and _brackets(buffer, start, end):
        return True
    return last == 41 and _calls(buffer, start, end)


@kernel(boolean(BYTES, int64, int64))
def _comment(buffer: Any, start: int, end: int) -> bool:
    """A line, without white space, that begins as comments do."""
    first = buffer[start]
    second = buffer[start + 1] if start + 1 < end else np.uint8(0)
    return bool(
        first == 35
        or first == 42
        or (first == 47 and second == 47)
        or (first == 45 and second == 45)
        or begins(buffer, start, end, _QUOTES)
        or begins(buffer, start, end, _APOSTROPHES)
    )


@kernel(boolean(BYTES, int64, int64))
def _dense(buffer: Any, start: int, end: int) -> bool:
    """A very long line of which many characters are signs."""
    signs = 0
    for i in range(start, end):
        signs += (CODE_KINDS[buffer[i]] >> 6) & 1
    return end - start > 200 and signs > 0.12 * (end - start)


@kernel(int64(BYTES, int64, int64, writable("int64", 2)))
def _lines(buffer: Any, start: int, end: int, out: Any) -> int:
    """Lines that are not blank: begin, first and last sign, end in `out [lines, 4]`. Returns how many."""
    n = 0
    line: Any = start
    while line <= end:
        stop = line
        while stop < end and buffer[stop] != 10:
            stop += 1
        first = _past(buffer, line, stop, 1)
        if first < stop:
            last = stop
            while CODE_KINDS[buffer[last - 1]] & 1:
                last -= 1
            out[n, 0], out[n, 1], out[n, 2], out[n, 3] = line, first, last, stop
            n += 1
        line = stop + 1
    return n


@kernel(void(BYTES, EDGES, EDGES, readable("float64"), writable("bool_")))
def count_code(buffer: Any, starts: Any, ends: Any, shares: Any, out: Any) -> None:
    """Whether more than `shares` of the lines of every text are code; see `lines_of_code` in `label/code.py`. ASCII without code fences."""
    longest: Any = 0
    for i in range(len(starts)):
        longest = max(longest, ends[i] - starts[i])
    lines = np.empty((longest // 2 + 2, 4), np.int64)
    for i in range(len(starts)):
        found: Any = _lines(buffer, starts[i], ends[i], lines)
        step = max(1, found // MOST_LINES)
        left: Any = (found + step - 1) // step
        wanted = shares[i] * max(left, 1)
        score = 0.0
        for k in range(0, found, step):
            if score > wanted or score + left <= wanted:
                break
            left -= 1
            begin, first, last, end = lines[k, 0], lines[k, 1], lines[k, 2], lines[k, 3]
            indented = first > begin and (buffer[begin] == 9 or first - begin >= 4)
            if indented and buffer[begin] != 9:
                for j in range(4):
                    indented &= buffer[begin + j] == 32
            if _shaped(buffer, first, last, end):
                score += 1.0
            elif _comment(buffer, first, last) or indented:
                score += 0.5
            elif _dense(buffer, begin, end):
                score += 1.0
        out[i] = score > wanted
