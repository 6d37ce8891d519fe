"""Quality rules, as one vectorised pass: traces of how a text was made or carried (ours), then those of Gopher (Rae et al. 2021, table A1), C4 (Raffel
et al. 2020, section 2.2) and FineWeb (Penedo et al. 2024, section 3.6). The first rule that fires is recorded. Rules about spaces are not applied to
scripts without spaces. Code has a rule of its own, for minified and generated files (long lines: Kocetkov et al. 2022, section 3.2).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from umsicht.corpus.kernels.fold import table_arguments
from umsicht.corpus.kernels.marks import MARKS, find_marks, mark_bytes, mark_names
from umsicht.corpus.kernels.spans import Spans, Words, words_of
from umsicht.corpus.kernels.stats import COLUMNS, byte_counts, text_stats
from umsicht.corpus.label.phrases import BLOCK, CHATBOT, EMPTY, phrases_in

Columns = dict[str, npt.NDArray[np.float32]]

SHORT_PAGE = 200
"""Words: in a longer text the notice of a blocked page is a line among others."""
LONG_LINES = 150
"""Characters that lines of code have in the mean where nobody wrote them by hand."""


def measure_texts(spans: Spans, words: Words | None = None) -> Columns:
    """The counts of every text, by name. `words` are theirs, where they are known."""
    out = np.zeros((len(spans), len(COLUMNS)), np.float32)
    marks = np.zeros((len(spans), len(MARKS)), np.float32)
    found = words or words_of(spans)
    if len(spans):
        codes, _ = table_arguments()
        text_stats(
            spans.buffer, spans.starts, spans.ends, found.hashes, found.offsets, codes, byte_counts(), out
        )
        find_marks(spans.buffer, spans.starts, spans.ends, mark_bytes(), *mark_names(), marks)
    counted = {name: out[:, k] for k, name in enumerate(COLUMNS)}
    traces = {name: marks[:, k] for k, name in enumerate(MARKS)}
    return counted | traces | {"phrases": phrases_in(found).astype(np.float32)}


def _per(above: npt.NDArray[np.float32], below: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    return (above / np.maximum(below, 1)).astype(np.float32)


def _spaced(c: Columns) -> npt.NDArray[np.bool_]:
    return c["alone"] < 0.3 * np.maximum(c["characters"], 1)


def _holds(c: Columns, kind: int) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = (c["phrases"].astype(np.uint8) & kind) != 0
    return found


def _dense(c: Columns, name: str, least: int, share: float) -> npt.NDArray[np.bool_]:
    """At least so many marks, and so many for each word."""
    return (c[name] >= least) & (c[name] > share * c["words"])


RULES: dict[str, Callable[[Columns], npt.NDArray[np.bool_]]] = {
    "broken-characters": lambda c: _dense(c, "broken", 3, 0.01),
    "escaped-text": lambda c: (
        _dense(c, "entities", 3, 0.01) | ((c["escapes"] >= 3) & (c["escapes"] >= 2 * c["lines"]))
    ),
    "markup-left": lambda c: _dense(c, "tags", 6, 0.04),
    "divided-words": lambda c: (c["hyphens"] >= 3) & (c["hyphens"] > 0.05 * c["lines"]),
    "control-strings": lambda c: c["controls"] >= 1,
    "encoded-data": lambda c: c["encoded"] > 0.1 * c["characters"],
    "chatbot-phrase": lambda c: _holds(c, CHATBOT),
    "blocked-page": lambda c: _holds(c, BLOCK) & (c["tokens"] < SHORT_PAGE),
    "placeholder": lambda c: _holds(c, EMPTY) & (c["tokens"] < SHORT_PAGE),
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


CODE_RULES: dict[str, Callable[[Columns], npt.NDArray[np.bool_]]] = {
    "code-long-lines": lambda c: (c["characters"] > 1_000) & (_per(c["characters"], c["lines"]) > LONG_LINES),
}


def first_rule(columns: Columns, is_code: npt.NDArray[np.bool_] | None = None) -> npt.NDArray[np.int8]:
    """Number of the first rule that fires for every text, -1 for none."""
    n = len(columns["words"])
    fired = np.full(n, -1, np.int8)
    code = np.zeros(n, bool) if is_code is None else is_code
    for number, rule in enumerate(RULES.values()):
        fired[(fired < 0) & ~code & rule(columns)] = number
    for number, rule in enumerate(CODE_RULES.values(), len(RULES)):
        fired[(fired < 0) & code & rule(columns)] = number
    return fired


def rule_names(fired: npt.NDArray[np.int8]) -> list[str]:
    """Names for the numbers of `first_rule`; an empty one where none fired."""
    names = [*RULES, *CODE_RULES, ""]
    return [names[number] for number in fired]
