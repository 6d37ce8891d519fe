"""The words of a finding, in English or German: title, what was seen, why it matters, causes in the order to look, one next step."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from umsicht.findings.finding import Finding
from umsicht.words import areas, catalogue, language, localise


@dataclass(frozen=True)
class Rendered:
    """A finding in words."""

    id: str
    grade: str
    title: str
    seen: str
    why: str
    causes: tuple[str, ...]
    next: str
    doc: str


class _Numbers(dict[str, Any]):
    """Placeholders without a number stay visible instead of failing."""

    def __missing__(self, key: str) -> str:
        return "{" + key + "}"


class _Spoken:
    """A number as it is written in a language: four digits, or what the sentence's own format says; large ones in groups."""

    def __init__(self, value: float, lang: str) -> None:
        self._value = value
        self._lang = lang

    def __format__(self, spec: str) -> str:
        large = math.isfinite(self._value) and 1e4 <= abs(self._value) < 1e15
        return localise(format(self._value, spec or (",.0f" if large else ".4g")), self._lang)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _fill(text: str, values: Mapping[str, Any], lang: str) -> str:
    shown = {key: _Spoken(value, lang) if _is_number(value) else value for key, value in values.items()}
    return _formatted(text, shown)


def _fill_commands(text: str, values: Mapping[str, Any]) -> str:
    """As `_fill`, with numbers as commands and recipes take them."""
    shown = {key: f"{value:.4g}" if isinstance(value, float) else value for key, value in values.items()}
    return _formatted(text, shown)


def _formatted(text: str, shown: Mapping[str, Any]) -> str:
    try:
        return text.format_map(_Numbers(shown))
    except (ValueError, IndexError, AttributeError):
        return text


def unmeasured(text: str) -> str:
    """A sentence of the catalogue before anything was measured: each number's place as ‹name›."""
    return re.sub(r"\{(\w+)[^}]*\}", r"‹\1›", text)


def entry(finding_id: str, lang: str | None = None) -> dict[str, Any] | None:
    """The raw catalogue entry, or None."""
    lang = lang or language()
    for area in areas(lang, findings=True):
        found = catalogue(lang, area).get(finding_id)
        if found:
            return dict(found)
    return entry(finding_id, "en") if lang != "en" else None


def known_ids() -> list[str]:
    """Every finding id in the English catalogue, sorted."""
    return sorted(name for area in areas("en", findings=True) for name in catalogue("en", area))


def render(finding: Finding, lang: str | None = None) -> Rendered:
    """The finding in words; an id without an entry still shows its numbers."""
    lang = lang or language()
    values = {"location": finding.location, "cause": finding.cause, **finding.numbers}
    found = entry(finding.id, lang) or {}
    seen = found.get("seen") or ", ".join(f"{key} {value}" for key, value in finding.numbers.items())
    causes = tuple(_fill(cause, values, lang) for cause in found.get("causes", ()))
    if finding.cause and finding.cause not in causes:
        causes = (finding.cause, *causes)
    return Rendered(
        id=finding.id,
        grade=finding.grade,
        title=_fill(found.get("title", finding.id), values, lang),
        seen=_fill(seen, values, lang),
        why=_fill(found.get("why", ""), values, lang),
        causes=causes,
        next=_fill_commands(found.get("next", ""), values),
        doc=found.get("doc", ""),
    )
