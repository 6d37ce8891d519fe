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


def test_a_command_keeps_its_points(said: None) -> None:
    assert words.t("any.seen_fix", lang="de", rate=0.05) == "--set a=0.05"
