"""Lines and paragraphs of texts with the words of each, so that a text's words are hashed once for all that looks at its pieces.

A line feed ends every word, so that the words of a line are a run of its text's words.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from umsicht.corpus.kernels.jit import int64, kernel, readable, void, writable
from umsicht.corpus.kernels.shingles import EDGES, SET, hash_run, sketch_of
from umsicht.corpus.kernels.words import BYTES, CODES, HASHES, hash_words

PLACES = writable("int64", 2)
"""`[pieces, 4]`: where a piece begins and ends in the buffer, and its first and past its last word among the words of all texts."""


@kernel(
    int64(
        BYTES,
        EDGES,
        EDGES,
        CODES,
        CODES,
        HASHES,
        writable("int64"),
        writable("uint32"),
        PLACES,
        writable("bool_"),
        writable("bool_"),
    )
)
def words_by_line(
    buffer: Any,
    starts: Any,
    ends: Any,
    codes: Any,
    extra: Any,
    words: Any,
    offsets: Any,
    text: Any,
    places: Any,
    after_blank: Any,
    has_blank: Any,
) -> int:
    """The hashed words of every text one after the other in `words`, cut by `offsets [texts + 1]`, and the lines that are not empty.

    Of every line the number of its text, its `places`, and whether a blank line stands before it; of every text whether it has a blank line. There is
    room for a line at every line feed and in every text. Returns how many lines there are.
    """
    total = 0
    n = 0
    for i in range(len(starts)):
        offsets[i] = total
        has_blank[i] = False
        blank = False
        end = ends[i]
        line: Any = starts[i]
        while line < end:
            ahead, stop = np.uint64(line), np.uint64(end)
            while ahead < stop and buffer[ahead] != 10:
                ahead += np.uint64(1)
            position: Any = np.int64(ahead)
            if position > line:
                text[n] = i
                places[n, 0], places[n, 1], places[n, 2] = line, position, total
                total += hash_words(buffer, line, position, codes, extra, words[total:])
                places[n, 3] = total
                after_blank[n] = blank
                n += 1
                blank = False
            if position + 1 < end and buffer[position + 1] == 10:
                has_blank[i] = blank = True
            line = position + 1
    offsets[len(starts)] = total
    return n


@kernel(
    int64(
        readable("uint32"),
        readable("int64", 2),
        readable("boolean"),
        readable("boolean"),
        writable("uint32"),
        PLACES,
    )
)
def join_lines(
    text: Any, places: Any, after_blank: Any, has_blank: Any, out_text: Any, out_places: Any
) -> int:
    """Lines put together to blocks between blank lines; a text that has none keeps its lines. Returns how many there are."""
    n = 0
    for i in range(len(text)):
        if n and out_text[n - 1] == text[i] and has_blank[text[i]] and not after_blank[i]:
            out_places[n - 1, 1], out_places[n - 1, 3] = places[i, 1], places[i, 3]
            continue
        out_text[n] = text[i]
        for k in range(4):
            out_places[n, k] = places[i, k]
        n += 1
    return n


@kernel(void(SET, EDGES, EDGES, HASHES))
def hash_runs(words: Any, first: Any, last: Any, out: Any) -> None:
    """The hash of each run of words as a whole; 0 of an empty one."""
    for i in range(len(first)):
        out[i] = hash_run(words, first[i], last[i])


@kernel(void(HASHES, EDGES, EDGES, int64, writable("uint64", 2), writable("uint32")))
def sketch_runs(words: Any, first: Any, last: Any, n: int, sketches: Any, sizes: Any) -> None:
    """`sketch_many` of runs of words that are known."""
    longest = 0
    for i in range(len(first)):
        longest = max(longest, last[i] - first[i])
    shingles = np.empty(longest + 1, np.uint64)
    scratch = np.empty(longest + 1, np.uint64)
    for i in range(len(first)):
        mine = words[first[i] : last[i]]
        sizes[i] = sketch_of(mine, len(mine), n, shingles, scratch, sketches[i])
