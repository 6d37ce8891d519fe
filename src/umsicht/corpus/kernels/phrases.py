"""Looking for a few known phrases among hashed words."""

from __future__ import annotations

from typing import Any

from umsicht.corpus.kernels.jit import kernel, readable, void, writable
from umsicht.corpus.kernels.shingles import EDGES
from umsicht.corpus.kernels.words import HASHES

MASK_BITS = 16


@kernel(
    void(
        HASHES,
        EDGES,
        readable("uint8"),
        HASHES,
        EDGES,
        EDGES,
        readable("uint8"),
        writable("uint8"),
    )
)
def find_phrases(
    words: Any, offsets: Any, mask: Any, known: Any, edges: Any, anchors: Any, kinds: Any, out: Any
) -> None:
    """Set bits of `out [texts]` for the kinds of phrases that stand in a text.

    Phrase p has the words `known[edges[p]:edges[p + 1]]`; the rarest of them, `anchors[p]` words after its first, is in `mask` by its lower 16 bits.
    """
    for row in range(len(offsets) - 1):
        first, last = offsets[row], offsets[row + 1]
        found = 0
        for i in range(first, last):
            word = words[i]
            if mask[word & 0xFFFF] == 0:
                continue
            for p in range(len(kinds)):
                size = edges[p + 1] - edges[p]
                begin = i - anchors[p]
                if known[edges[p] + anchors[p]] != word or begin < first or begin + size > last:
                    continue
                same = True
                for k in range(size):
                    if words[begin + k] != known[edges[p] + k]:
                        same = False
                        break
                if same:
                    found |= kinds[p]
        out[row] = found
