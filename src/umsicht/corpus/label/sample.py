"""What is asked of a few documents of every batch only, because it says something of their source and not of each: whether they are in the language that
the recipe or a field declares, whether they read like scans, random letters or lists of search terms, and whether they end where a sentence does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from umsicht.corpus.kernels.spans import Spans, Words
from umsicht.corpus.label.classifier import preset
from umsicht.corpus.label.language import CODE, UNDETERMINED, identify_many

PICKED = 48
"""Documents of a batch."""
LONG_ENOUGH = 200
"""Bytes: of a shorter text neither can be told."""
SENTENCES = 3
"""A text with as many sentence ends inside is written in sentences: a gloss, a title or a list is not."""
LOW_QUALITY = "low-quality"
LOW_SCORE = 0.5
"""A weak score, because only the share of a whole source is judged: books, encyclopedia and documentation stay below one in twenty."""
ALIKE = (
    {"zh", "wuu", "yue"},
    {"no", "nb", "nn", "da"},
    {"hr", "sr", "bs", "sh"},
    {"id", "ms"},
    {"es", "gl", "ast"},
    {"pt", "gl"},
)
"""Languages whose texts are taken for each other."""

Tally = dict[str, tuple[int, int]]
"""Documents and bytes by label."""


def tally(spans: Spans, words: Words, languages: Sequence[str], is_code: npt.NDArray[np.bool_]) -> Tally:
    """What a sample of a batch says: `sample:scored`, `sample:low-quality`, `sample:language`, `sample:other:<language>`,
    `sample:ends`, `sample:unfinished`.
    """
    sizes = spans.ends - spans.starts
    fits = np.flatnonzero((sizes >= LONG_ENOUGH) & ~is_code)
    picked = fits[np.unique(np.linspace(0, len(fits) - 1, min(PICKED, len(fits))).astype(np.int64))]
    if not len(picked):
        return {}
    return (
        _endings(spans, picked)
        | _quality(spans, words, languages, picked)
        | _language(spans, languages, picked)
    )


def _endings(spans: Spans, picked: npt.NDArray[np.int64]) -> Tally:
    """Of texts that are written in sentences: those whose last character is a letter or a comma."""
    written = picked[[spans.text(i).count(". ") >= SENTENCES for i in picked.tolist()]]
    last = spans.buffer[spans.ends[written] - 1]
    unfinished = written[((last | 0x20) >= ord("a")) & ((last | 0x20) <= ord("z")) | (last == ord(","))]
    return {"sample:ends": _counted(spans, written), "sample:unfinished": _counted(spans, unfinished)}


def _quality(spans: Spans, words: Words, languages: Sequence[str], picked: npt.NDArray[np.int64]) -> Tally:
    known = preset(LOW_QUALITY)
    mine = picked[[languages[i] in known.languages for i in picked.tolist()]]
    if not len(mine):
        return {}
    low = known.scores(spans.take(mine), words.take(mine)) >= LOW_SCORE
    return {"sample:scored": _counted(spans, mine), f"sample:{LOW_QUALITY}": _counted(spans, mine[low])}


def _language(spans: Spans, languages: Sequence[str], picked: npt.NDArray[np.int64]) -> Tally:
    found = [language for language, _ in identify_many(spans.take(picked))]
    pairs = [(i, found[k]) for k, i in enumerate(picked.tolist()) if _told(found[k], languages[i])]
    tallied: Tally = {"sample:language": _counted(spans, np.array([i for i, _ in pairs], np.int64))}
    for language in sorted({language for _, language in pairs}):
        other = [i for i, known in pairs if known == language and not same_language(known, languages[i])]
        if other:
            tallied[f"sample:other:{language}"] = _counted(spans, np.array(other, np.int64))
    return tallied


def _told(found: str, declared: str) -> bool:
    """Whether both are names of languages; a field may hold "English", or nothing."""
    return found not in (CODE, UNDETERMINED) and len(declared.partition("-")[0]) == 2


def same_language(found: str, declared: str) -> bool:
    """Whether a declared language can be what was found: the same, a variety of it, or one that it is taken for."""
    a, b = found.partition("-")[0], declared.partition("-")[0]
    return a == b or any(a in group and b in group for group in ALIKE)


def _counted(spans: Spans, rows: npt.NDArray[np.int64]) -> tuple[int, int]:
    return len(rows), int((spans.ends[rows] - spans.starts[rows]).sum())
