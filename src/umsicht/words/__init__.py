"""Every user-facing sentence, in English and German.

Catalogues are JSON files, one pair an area: `words/en/<area>.json` and `words/de/<area>.json` hold `{"key": "sentence with
{placeholders}"}`; a sentence is asked for as `t("cli.took", duration=…)`. Plurals are two keys, `key.one` and `key.other`, chosen by
`count`. Finding texts live in `words/<lang>/findings/<area>.json`. Codes, keys and file formats are never translated.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import orjson

LANGUAGES = ("en", "de")
_FOLDER = Path(__file__).parent
_current: ContextVar[str | None] = ContextVar("umsicht_language", default=None)


def language() -> str:
    """The language in force: the one set here, else `UMSICHT_LANG`, else the locale, else English."""
    chosen = _current.get()
    if chosen:
        return chosen
    for name in ("UMSICHT_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        value = os.environ.get(name, "").lower()
        if value:
            return "de" if value.startswith("de") else "en"
    return "en"


def set_language(code: str | None) -> None:
    """Choose `en` or `de` for the current context; None goes back to the environment's choice."""
    if code is not None and code not in LANGUAGES:
        raise ValueError(f"language must be one of {LANGUAGES}, got {code!r}")
    _current.set(code)


@contextmanager
def speaking(code: str | None) -> Iterator[None]:
    """Speak another language inside a `with` block; None changes nothing."""
    token = _current.set(code or language())
    try:
        yield
    finally:
        _current.reset(token)


@functools.cache
def catalogue(lang: str, area: str) -> dict[str, Any]:
    """The whole catalogue of one area (`"guard"`, `"findings/guard"`); empty where the area has none."""
    path = _FOLDER / lang / f"{area}.json"
    if not path.is_file():
        return {}
    loaded: dict[str, Any] = orjson.loads(path.read_bytes())
    return loaded


def areas(lang: str = "en", *, findings: bool = False) -> list[str]:
    """Names of the areas that have a catalogue, sorted."""
    folder = _FOLDER / lang
    if findings:
        folder = folder / "findings"
        if not folder.is_dir():
            return []
    prefix = "findings/" if findings else ""
    return sorted(prefix + entry.name[:-5] for entry in folder.iterdir() if entry.name.endswith(".json"))


def t(key: str, /, *, count: int | float | None = None, lang: str | None = None, **values: object) -> str:
    """The sentence for `area.key`, placeholders filled in.

    `count` chooses between `key.one` and `key.other` and fills `{count}`. A key that no catalogue has is shown as the key itself: an
    unfinished text must never stop a run (a test finds every missing key).
    """
    lang = lang or language()
    area, _, name = key.partition(".")
    if count is not None:
        name += ".one" if count == 1 else ".other"
        values["count"] = count
    sentence = catalogue(lang, area).get(name) or catalogue("en", area).get(name)
    if sentence is None:
        return key
    if lang == "de" and not name.endswith("fix"):  # commands keep their points
        values = {key: _german(value) for key, value in values.items()}
    try:
        return str(sentence).format(**values)
    except (KeyError, IndexError, ValueError):
        return str(sentence)


_MARKS = str.maketrans(",.", ".,")


def localise(text: str, lang: str) -> str:
    """A number in C notation (`1,234.5`) in the notation of `lang`."""
    return text.translate(_MARKS) if lang == "de" else text


_PERCENT = re.compile(r"-?\d+(\.\d+)?%")
_NUMBER = r"[-+−±]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[-+]?\d+)?"
_NUMERALS = re.compile(
    rf"[\[(]?{_NUMBER}(?:(?<=\d) ?[A-Za-zµ%]{{1,3}}\b|(?<=\d) ?%|[ –…/\[\]();:±]|, |(?<![\d.]){_NUMBER})*"
)


def numerals(text: str, lang: str | None = None) -> str:
    """`text` in the notation of `lang` where it is nothing but numbers in C notation with units and brackets; else as it is.

    `3.012 [2.980, 3.104]` becomes `3,012 [2,980; 3,104]`, `20.5%` becomes `20,5 %`; `torch 2.13.0` and `lr=0.02` stay.
    """
    if (lang or language()) != "de" or not _NUMERALS.fullmatch(text):
        return text
    parts = [localise(part, "de") for part in text.split(", ")]
    return re.sub(r"(?<=\d)%", " %", "; ".join(parts))


class _German(float):
    """A fraction with the German decimal mark."""

    def __format__(self, spec: str) -> str:
        return localise(super().__format__(spec) if spec else repr(float(self)), "de")


def _german(value: object) -> object:
    """Fractions and plain percents; any other text is final, because `4,249` does not say in whose notation it was written."""
    if isinstance(value, float):
        return _German(value)
    if isinstance(value, str) and _PERCENT.fullmatch(value):
        return numerals(value, "de")
    return value
