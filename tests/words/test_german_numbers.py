"""A German sentence has German fractions and percents; what is to be typed keeps its points."""

from __future__ import annotations

import pytest

from umsicht import words


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> None:
    sentence = {"seen": "{share} bei {rate}, {loss:.2f} nach {step}", "seen_fix": "--set a={rate}"}
    monkeypatch.setattr(words, "catalogue", lambda lang, area: sentence)


@pytest.mark.parametrize(
    ("lang", "shown"), [("en", "20.5% bei 0.05, 1.23 nach 1200"), ("de", "20,5 % bei 0,05, 1,23 nach 1200")]
)
def test_fractions_and_percents(said: None, lang: str, shown: str) -> None:
    assert words.t("any.seen", lang=lang, share="20.5%", rate=0.05, loss=1.2345, step=1200) == shown


@pytest.mark.parametrize("text", ["4,249", "12.000", "0,5", "3:10 min"])
def test_text_in_a_sentence_is_final(said: None, text: str) -> None:
    """What a page has written in German already must not be turned back."""
    assert words.t("any.seen", lang="de", share=text, rate=0.5, loss=1.0, step=1).startswith(
        f"{text} bei 0,5"
    )


def test_a_command_keeps_its_points(said: None) -> None:
    assert words.t("any.seen_fix", lang="de", rate=0.05) == "--set a=0.05"


@pytest.mark.parametrize(
    ("plain", "german"),
    [
        ("3.012", "3,012"),
        ("-1,234.5", "-1.234,5"),
        ("1.2e-05", "1,2e-05"),
        ("12.3 MB", "12,3 MB"),
        ("20.5%", "20,5 %"),
        ("0.5 %", "0,5 %"),
        ("3.012 [2.980, 3.104]", "3,012 [2,980; 3,104]"),
        ("+0.19 … +0.25", "+0,19 … +0,25"),
        ("45 s", "45 s"),
        ("3:10 min", "3:10 min"),
    ],
)
def test_a_cell_of_numbers_follows_the_language(plain: str, german: str) -> None:
    assert words.numerals(plain, "de") == german
    assert words.numerals(plain, "en") == plain


@pytest.mark.parametrize(
    "text", ["2.13.0", "lr=0.02", "step-1.5.jsonl", "encyclopedia.de", "", "—", "torch 2.13", "v1.2"]
)
def test_what_is_no_number_stays(text: str) -> None:
    assert words.numerals(text, "de") == text
