"""The words of a finding, in English or German: title, what was seen, why it matters, causes in the order to look, one next step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from umsicht.findings.finding import Finding
from umsicht.words import areas, catalogue, language


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


def _fill(text: str, values: Mapping[str, Any]) -> str:
    shown = {key: f"{value:.4g}" if isinstance(value, float) else value for key, value in values.items()}
    try:
        return text.format_map(_Numbers(shown))
    except (ValueError, IndexError, AttributeError):
        return text


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
    values = {"location": finding.location, "cause": finding.cause, **finding.numbers}
    found = entry(finding.id, lang) or {}
    seen = found.get("seen") or ", ".join(f"{key} {value}" for key, value in finding.numbers.items())
    causes = tuple(_fill(cause, values) for cause in found.get("causes", ()))
    if finding.cause and finding.cause not in causes:
        causes = (finding.cause, *causes)
    return Rendered(
        id=finding.id,
        grade=finding.grade,
        title=_fill(found.get("title", finding.id), values),
        seen=_fill(seen, values),
        why=_fill(found.get("why", ""), values),
        causes=causes,
        next=_fill(found.get("next", ""), values),
        doc=found.get("doc", ""),
    )
