"""The catalogue of findings as a page, in English or German."""

from __future__ import annotations

import re
from collections import defaultdict

from umsicht.findings import entry, known_ids, unmeasured

WORDS = {
    "en": {
        "title": "Findings",
        "about": "Written from the catalogue. A finding says what was seen, why it matters, the likely causes in the order to look at them, and one "
        "next step. `umsicht explain ID` prints any of them, offline. ‹n› stands for a number of your run.",
        "seen": "Seen",
        "why": "Why it matters",
        "causes": "Causes, in the order to look",
        "next": "Next step",
    },
    "de": {
        "title": "Befunde",
        "about": "Aus dem Katalog erzeugt. Ein Befund sagt, was gesehen wurde, warum es zählt, welche Ursachen in welcher Reihenfolge zu prüfen sind, und "
        "nennt einen nächsten Schritt. `umsicht --lang de explain ID` zeigt jeden davon, ohne Netz. ‹n› steht für eine Zahl des eigenen Laufs.",
        "seen": "Gesehen",
        "why": "Warum es zählt",
        "causes": "Ursachen, in der Reihenfolge, in der man sie prüft",
        "next": "Nächster Schritt",
    },
}


def page(lang: str) -> str:
    """Every finding by family."""
    words = WORDS[lang]
    families: dict[str, list[str]] = defaultdict(list)
    for identity in known_ids():
        families[identity.partition("/")[0]].append(identity)
    lines = [f"# {words['title']}", "", words["about"], ""]
    lines += [" · ".join(f"[{name}](#{name.lower()})" for name in sorted(families)), ""]
    for family in sorted(families):
        lines += [f"## {family}", ""]
        for identity in families[family]:
            lines += _entry(identity, lang)
    return "\n".join(lines)


def _entry(identity: str, lang: str) -> list[str]:
    words, found = WORDS[lang], entry(identity, lang) or {}
    lines = [f"### {identity} {{ #{anchor(identity)} }}", "", f"**{_plain(found.get('title', ''))}**", ""]
    for name in ("seen", "why"):
        if found.get(name):
            lines += [f"*{words[name]}.* {_plain(found[name])}", ""]
    if found.get("causes"):
        lines += [f"*{words['causes']}:*", ""]
        lines += [f"{number}. {_plain(cause)}" for number, cause in enumerate(found["causes"], 1)]
        lines.append("")
    if found.get("next"):
        lines += [f"*{words['next']}.* {_plain(found['next'])}", ""]
    return lines


def anchor(identity: str) -> str:
    """Where a finding stands on the page."""
    return identity.lower().replace("/", "-")


def _plain(text: str) -> str:
    """Text that Markdown leaves as it is, placeholders marked."""
    return re.sub(r"([*_<|])", r"\\\1", unmeasured(text))
