"""Languages told by their small words: where a text has many of one language and none of another, no model is asked.

Words that two of the languages share, or that are as frequent in a relative of one of them, are not listed.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from umsicht.corpus.kernels.lid import count_words
from umsicht.corpus.label.lid import word_table

ENOUGH = 5
"""Small words of one language in a sample of at most 161 characters, and none of another."""

_WORDS = {
    "en": """the and with that this which from have has are were been their they would you your his she by when there about into other
        only some these could should what who how after before between through because while during such also many most it its to
        not of or if but all one can will than then them may use used two first does did had him our us where why here""",
    "de": """der und das mit ist nicht ein eine einen einem einer auf für sich dem auch als nach wurde werden wird aus oder bei sind von
        zu im zum zur durch aber wenn noch über haben hat kann ich sie wir vom beim diese dieser dieses nur sein seine""",
    "fr": """et est dans pour une avec cette sont être nous vous mais comme était leur leurs ses où aux au pas ont été elle elles ils
        même sans aussi ces après très donc ainsi depuis du c'est d'un d'une n'est qu'il qu'elle s'est n'a""",
    "es": """el los las y más pero está están muy también hasta fue sus esto ellos hay según siempre eran cuando donde aunque desde hace""",
}
LANGUAGES = tuple(_WORDS)


@functools.cache
def _table() -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int32]]:
    pairs = [(word.encode(), number) for number, text in enumerate(_WORDS.values()) for word in text.split()]
    return word_table([word for word, _ in pairs], [number for _, number in pairs])


def decided(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """The number of the language of every text in `LANGUAGES`, -1 where small words do not say it. Words stand between single spaces."""
    counts = np.zeros((len(starts), len(LANGUAGES)), np.int32)
    count_words(data, starts, ends, *_table(), counts)
    best = counts.argmax(1)
    most = counts.max(1, initial=0)
    return np.where((most >= ENOUGH) & (counts.sum(1) == most), best, -1)
