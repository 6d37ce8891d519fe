"""Quality rules of Gopher (Rae et al. 2021, table A1), C4 (Raffel et al. 2020, section 2.2) and FineWeb (Penedo et al. 2024, section 3.6), as one
vectorised pass. The first rule that fires is recorded. Rules about spaces are not applied to scripts without spaces, none of them to code.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from umsicht.corpus.kernels.fold import table_arguments
from umsicht.corpus.kernels.spans import Spans, Words, words_of
from umsicht.corpus.kernels.stats import COLUMNS, byte_counts, text_stats

Columns = dict[str, npt.NDArray[np.float32]]


def measure_texts(spans: Spans, words: Words | None = None) -> Columns:
    """The counts of every text, by name. `words` are theirs, where they are known."""
    out = np.zeros((len(spans), len(COLUMNS)), np.float32)
    if len(spans):
        found = words or words_of(spans)
        codes, _ = table_arguments()
        text_stats(
            spans.buffer, spans.starts, spans.ends, found.hashes, found.offsets, codes, byte_counts(), out
        )
    return {name: out[:, k] for k, name in enumerate(COLUMNS)}


def _per(above: npt.NDArray[np.float32], below: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    return (above / np.maximum(below, 1)).astype(np.float32)


def _spaced(c: Columns) -> npt.NDArray[np.bool_]:
    return c["alone"] < 0.3 * np.maximum(c["characters"], 1)


RULES: dict[str, Callable[[Columns], npt.NDArray[np.bool_]]] = {
    "gopher-few-words": lambda c: c["tokens"] < 50,
    "gopher-many-words": lambda c: c["words"] > 100_000,
    "gopher-word-length": lambda c: (
        _spaced(c)
        & ((_per(c["characters"], c["words"]) - 1 < 3) | (_per(c["characters"], c["words"]) - 1 > 12))
    ),
    "gopher-symbols": lambda c: _per(c["symbols"], c["words"]) > 0.1,
    "gopher-bullets": lambda c: (c["lines"] >= 5) & (_per(c["bullets"], c["lines"]) > 0.9),
    "gopher-ellipses": lambda c: (c["lines"] >= 3) & (_per(c["ellipses"], c["lines"]) > 0.3),
    "gopher-few-letters": lambda c: _per(c["letters"], c["characters"]) < 0.5,
    "gopher-repeated-lines": lambda c: (c["lines"] >= 5) & (c["repeated_lines"] > 0.3),
    "gopher-repeated-runs": lambda c: (c["tokens"] >= 50) & (c["repeated"] > 0.25),
    "c4-braces": lambda c: _per(c["braces"], c["characters"]) > 0.005,
    "fineweb-line-ends": lambda c: (c["lines"] >= 5) & (_per(c["ended"], c["lines"]) <= 0.12),
    "fineweb-short-lines": lambda c: (c["lines"] >= 5) & (_per(c["short"], c["lines"]) >= 0.67),
    "fineweb-many-lines": lambda c: _spaced(c) & (c["lines"] >= 5) & (_per(c["lines"], c["words"]) >= 0.3),
}


def first_rule(columns: Columns) -> npt.NDArray[np.int8]:
    """Number of the first rule that fires for every text, -1 for none."""
    n = len(columns["words"])
    fired = np.full(n, -1, np.int8)
    for number, rule in enumerate(RULES.values()):
        fired[(fired < 0) & rule(columns)] = number
    return fired


def rule_names(fired: npt.NDArray[np.int8]) -> list[str]:
    """Names for the numbers of `first_rule`; an empty one where none fired."""
    names = [*RULES, ""]
    return [names[number] for number in fired]
