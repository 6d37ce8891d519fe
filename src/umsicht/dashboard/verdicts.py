"""A diagnosis as a page shows it: a tone, a sign, a headline; never colour alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from umsicht.dashboard.numbers import localised_sentence
from umsicht.words import t

TONES = {
    "healthy": "good",
    "overfitting": "warn",
    "both-high": "warn",
    "plateau": "warn",
    "saw-tooth": "warn",
    "level-shift-up": "warn",
    "level-shift-down": "warn",
    "domain-divergence": "warn",
    "too-good": "bad",
    "diverged": "bad",
}
SIGNS = {"good": "✓", "warn": "!", "bad": "✕", "": "?"}
PATTERN_OF = {"healthy": "healthy", "both-high": "underfit", "overfitting": "overfit", "too-good": "leak"}


@dataclass(frozen=True)
class Step:
    """One next check: what to do, why, and the command that does it."""

    what: str
    why: str = ""
    command: str = ""


@dataclass(frozen=True)
class Evidence:
    """One number of the record that the verdict rests on."""

    metric: str
    value: object
    step: object
    role: str


@dataclass(frozen=True)
class Verdict:
    """What stands at the top of a run."""

    code: str
    tone: str
    sign: str
    headline: str
    short: str
    more: str
    evidence: tuple[Evidence, ...]
    steps: tuple[Step, ...]
    events: tuple[Mapping[str, Any], ...]
    causes: tuple[str, ...]
    also: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def pattern(self) -> str:
        """The schematic picture it is closest to, or an empty string."""
        return PATTERN_OF.get(self.code, "")


def verdict(diagnosis: Mapping[str, Any] | None, lang: str) -> Verdict:
    """Dress a `Diagnosis.to_dict()`; None and unknown codes become an honest "cannot say"."""
    plain = diagnosis or {}
    code = str(plain.get("verdict") or "none")
    tone = TONES.get(code, "")
    named = code.replace("-", " ")
    headline = (
        str(plain.get("title") or "") or _known(f"dashboard.verdict.{code}", lang) or named.capitalize()
    )
    return Verdict(
        code,
        tone,
        SIGNS[tone],
        headline[:1].upper() + headline[1:],
        _known(f"dashboard.verdict.{code}.short", lang) or named,
        _more(plain, lang),
        tuple(_evidence(item, lang) for item in plain.get("evidence") or () if isinstance(item, Mapping)),
        tuple(_step(item, lang) for item in plain.get("next_steps") or ()),
        tuple(item for item in plain.get("events") or () if isinstance(item, Mapping)),
        tuple(_known(f"diagnose.cause.{cause}", lang) or str(cause) for cause in plain.get("causes") or ()),
        tuple(
            localised_sentence(str(item.get("text") or item.get("id")), lang)
            for item in plain.get("also") or ()
            if isinstance(item, Mapping)
        ),
        tuple(map(str, plain.get("missing") or ())),
    )


def _known(key: str, lang: str) -> str:
    """The sentence for `key`, or an empty string where the catalogue has none."""
    sentence = t(key, lang=lang)
    return "" if sentence == key else sentence


def _more(plain: Mapping[str, Any], lang: str) -> str:
    parts = [localised_sentence(str(plain.get("summary") or ""), lang)]
    confidence = str(plain.get("confidence") or "")
    if confidence:
        word = _known(f"dashboard.confidence.{confidence}", lang) or confidence
        parts.append(t("dashboard.verdict.confidence", lang=lang, share=word))
    return " ".join(part for part in parts if part)


def _evidence(item: Mapping[str, Any], lang: str) -> Evidence:
    return Evidence(str(item.get("metric", "")), item.get("value"), item.get("step"), _role(item, lang))


def _role(item: Mapping[str, Any], lang: str) -> str:
    role = str(item.get("role") or "")
    return (_known(f"diagnose.role.{role}", lang) or role.replace("_", " ")) if role else ""


def _step(item: object, lang: str) -> Step:
    if isinstance(item, Mapping):
        what = str(item.get("text") or item.get("title") or item.get("id") or "")
        return Step(
            localised_sentence(what, lang), str(item.get("reason") or ""), str(item.get("command") or "")
        )
    return Step(str(item))
