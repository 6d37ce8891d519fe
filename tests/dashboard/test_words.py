"""No sentence outside the catalogues, no key that a page asks for and a catalogue lacks."""

from __future__ import annotations

import re
from pathlib import Path

import umsicht.dashboard
from umsicht.words import catalogue

HOME = Path(umsicht.dashboard.__file__).parent
ALLOWED = {"Umsicht", "FLOP", "log", "sha", "n", "T", "umsicht", "x"}


def test_templates_hold_no_bare_text() -> None:
    bare = []
    for path in sorted((HOME / "templates").glob("*.html")):
        text = path.read_text("utf-8")
        text = re.sub(r"\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}", " ", text, flags=re.S)
        text = re.sub(r"<(code|kbd|script|style)\b.*?</\1>", " ", text, flags=re.S)
        text = re.sub(r"&\w+;|<[^>]*>", " ", text, flags=re.S)
        words = [word for word in re.findall(r"[A-Za-zÄÖÜäöüß]{2,}", text) if word not in ALLOWED]
        bare += [f"{path.name}: {word}" for word in words]
    assert bare == []


def test_templates_have_no_bare_attributes_that_are_read_aloud() -> None:
    for path in sorted((HOME / "templates").glob("*.html")):
        for value in re.findall(r'(?:aria-label|title|placeholder|alt)="([^"]*)"', path.read_text("utf-8")):
            assert "{{" in value, f"{path.name}: {value}"


def test_scripts_say_nothing_of_their_own() -> None:
    for path in sorted((HOME / "static").glob("*.js")):
        code = re.sub(r"//[^\n]*|/\*.*?\*/", "", path.read_text("utf-8"), flags=re.S)
        assert "innerHTML" not in code and "insertAdjacentHTML" not in code and "eval(" not in code
        for literal in re.findall(r'"([^"\n]*)"|`([^`]*)`', code):
            sentence = literal[0] or re.sub(r"\$\{[^}]*\}", "", literal[1])
            assert not re.search(r"[A-Z][a-zäöü]+ [a-zäöü]+ [a-zäöü]+", sentence), f"{path.name}: {sentence}"


def test_every_key_that_is_written_out_exists_in_both_languages() -> None:
    asked: set[str] = set()
    for path in [*HOME.rglob("*.py"), *HOME.rglob("*.html")]:
        asked |= set(
            re.findall(r"""["']dashboard\.([a-z0-9_.\-]+[a-z0-9_])["']\s*[,)]""", path.read_text("utf-8"))
        )
    for lang in ("en", "de"):
        known = catalogue(lang, "dashboard")
        missing = {key for key in asked if key not in known and f"{key}.one" not in known}
        assert missing == set()


def test_every_word_the_scripts_ask_for_exists() -> None:
    asked: set[str] = set()
    for path in (HOME / "static").glob("*.js"):
        asked |= set(re.findall(r'say\("(\w+)"', path.read_text("utf-8")))
    assert asked
    for lang in ("en", "de"):
        assert {key for key in asked if f"js.{key}" not in catalogue(lang, "dashboard")} == set()
