"""A diagnosis as a page shows it: a tone, a sign, a headline; never colour alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from umsicht.dashboard import numbers
from umsicht.words import t

TONES = {
    "healthy": "good",
    "learning": "good",
    "underfit": "warn",
    "overfit": "warn",
    "plateau": "warn",
    "spike": "warn",
    "leak": "bad",
    "diverged": "bad",
    "nonfinite": "bad",
}
SIGNS = {"good": "✓", "warn": "!", "bad": "✕", "": "?"}
PATTERN_OF = {"healthy": "healthy", "underfit": "underfit", "overfit": "overfit", "leak": "leak"}


@dataclass(frozen=True)
class Step:
    """One next check: what to do, why, and the command that does it."""

    what: str
    why: str = ""
    command: str = ""


@dataclass(frozen=True)
class Verdict:
    """What stands at the top of a run."""

    code: str
    tone: str
    sign: str
    headline: str
    more: str
    confidence: float | None
    evidence: tuple[Mapping[str, Any], ...]
    steps: tuple[Step, ...]
    events: tuple[Mapping[str, Any], ...]

    @property
    def pattern(self) -> str:
        """The schematic picture it is closest to, or an empty string."""
        return PATTERN_OF.get(self.code, "")


def verdict(diagnosis: Mapping[str, Any] | None, lang: str) -> Verdict:
    """Dress a `Diagnosis.to_dict()`; None and unknown codes become an honest "cannot say"."""
    plain = diagnosis or {}
    code = str(plain.get("verdict") or "none")
    tone = TONES.get(code, "")
    headline = t(f"dashboard.verdict.{code}", lang=lang)
    if headline.startswith("dashboard."):
        headline = code.replace("-", " ").replace("_", " ").capitalize()
    confidence = plain.get("confidence")
    share = (
        float(confidence)
        if isinstance(confidence, (int, float)) and not isinstance(confidence, bool)
        else None
    )
    return Verdict(
        code,
        tone,
        SIGNS[tone],
        headline,
        _more(plain, confidence, share, lang),
        share,
        tuple(item for item in plain.get("evidence", ()) if isinstance(item, Mapping)),
        tuple(_step(item) for item in plain.get("next_steps", ())),
        tuple(item for item in plain.get("events", ()) if isinstance(item, Mapping)),
    )


def _more(plain: Mapping[str, Any], confidence: object, share: float | None, lang: str) -> str:
    parts = [str(plain[key]) for key in ("summary", "reason") if plain.get(key)]
    if share is not None:
        parts.append(t("dashboard.verdict.confidence", lang=lang, share=numbers.percent(share, lang, 0)))
    elif isinstance(confidence, str) and confidence:
        parts.append(t("dashboard.verdict.confidence", lang=lang, share=confidence))
    return " ".join(parts)


def _step(item: object) -> Step:
    if isinstance(item, Mapping):
        what = str(item.get("what") or item.get("text") or item.get("title") or item.get("name") or "")
        return Step(
            what,
            str(item.get("why") or item.get("reason") or ""),
            str(item.get("command") or item.get("change") or ""),
        )
    return Step(str(item))
