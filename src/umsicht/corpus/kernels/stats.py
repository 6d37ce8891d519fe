"""Counts that the quality heuristics are made of, all in one pass over each text."""

from __future__ import annotations

from typing import Any

import numpy as np

from umsicht.corpus.kernels.jit import kernel, void, writable
from umsicht.corpus.kernels.shingles import EDGES, _sort_unique, hash_shingles
from umsicht.corpus.kernels.words import BYTES, CODES, hash_words

COLUMNS = (
    "characters",
    "words",
    "letters",
    "lines",
    "bullets",
    "ellipses",
    "ended",
    "short",
    "symbols",
    "braces",
    "alone",
    "repeated",
    "repeated_lines",
    "tokens",
)
"""`words` are runs between spaces; `tokens` folded words (one a character in scripts without spaces, counted in `alone`); `repeated` is the share of
5-word runs that stand more than once, `repeated_lines` the share of lines that do."""


@kernel(void(BYTES, EDGES, EDGES, CODES, CODES, writable("float32", 2)))
def text_stats(buffer: Any, starts: Any, ends: Any, codes: Any, extra: Any, out: Any) -> None:
    """Fill `out [texts, 14]` with the columns named in `COLUMNS`."""
    longest: Any = 0
    for i in range(len(starts)):
        longest = max(longest, ends[i] - starts[i])
    words = np.empty(longest // 2 + 2, np.uint64)
    runs = np.empty(longest // 2 + 2, np.uint64)
    lines = np.empty(longest + 2, np.uint64)
    for i in range(len(starts)):
        start, end = starts[i], ends[i]
        n_words = hash_words(buffer, start, end, codes, extra, words)
        n_runs = hash_shingles(words, n_words, 5, runs)
        different = _sort_unique(runs, n_runs)
        characters: Any = 0
        spaces_words = letters = symbols = braces = alone = characters
        bullets = ellipses = ended = short = n_lines = characters
        inside = False
        line_start = start
        for position in range(start, end + 1):
            b = buffer[position] if position < end else np.uint8(10)
            if position < end:
                characters += (b & 0xC0) != 0x80
                space = b == 32 or b == 9 or b == 10
                if not space and not inside:
                    spaces_words += 1
                inside = not space
                letters += (b >= 65 and b <= 90) or (b >= 97 and b <= 122) or b >= 0xC3
                symbols += b == 35
                braces += b == 123 or b == 125
                if b >= 0xE0 and b < 0xF0 and position + 2 < end:
                    c = (
                        ((np.uint32(b) & np.uint32(15)) << np.uint32(12))
                        | ((np.uint32(buffer[position + 1]) & np.uint32(63)) << np.uint32(6))
                        | (np.uint32(buffer[position + 2]) & np.uint32(63))
                    )
                    alone += codes[c] >= np.uint32(0x80000000)
            if b == 10:
                first, last = line_start, position
                while first < last and (buffer[first] == 32 or buffer[first] == 9):
                    first += 1
                while last > first and (buffer[last - 1] == 32 or buffer[last - 1] == 9):
                    last -= 1
                if last > first:
                    value = np.uint64(1469598103934665603)
                    for k in range(first, last):
                        value = (value ^ np.uint64(buffer[k])) * np.uint64(1099511628211)
                    lines[n_lines] = value
                    n_lines += 1
                    a, z = buffer[first], buffer[last - 1]
                    bullets += (
                        a == 45
                        or a == 42
                        or (
                            a == 0xE2
                            and first + 2 < last
                            and buffer[first + 1] == 0x80
                            and buffer[first + 2] == 0xA2
                        )
                    )
                    dots = last - first >= 3 and z == 46 and buffer[last - 2] == 46 and buffer[last - 3] == 46
                    dots |= (
                        last - first >= 3
                        and z == 0xA6
                        and buffer[last - 2] == 0x80
                        and buffer[last - 3] == 0xE2
                    )
                    ellipses += dots
                    ended += (
                        z == 46
                        or z == 33
                        or z == 63
                        or z == 34
                        or z == 39
                        or z == 58
                        or z == 59
                        or z == 41
                        or z >= 0x80
                    )
                    short += last - first < 30
                line_start = position + 1
        different_lines = _sort_unique(lines, n_lines)
        row = out[i]
        row[0], row[1], row[2], row[3] = characters, spaces_words, letters, n_lines
        row[4], row[5], row[6], row[7] = bullets, ellipses, ended, short
        row[8], row[9], row[10] = symbols, braces, alone
        row[11] = 1.0 - different / max(n_runs, 1)
        row[12] = 1.0 - different_lines / max(n_lines, 1)
        row[13] = n_words
