"""Findings have words in both languages; a gate opens only for a written reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from umsicht.findings import FAMILIES, Finding, Waiver, catalogue, decide, entry, known_ids, render

SOURCE = Path(__file__).resolve().parents[2] / "src" / "umsicht"


def stop(identity: str = "CORPUS/some-check") -> Finding:
    return Finding(identity, "stop", "corpus", "somewhere", {"n": 3})


def test_a_stop_finding_closes_the_gate() -> None:
    decision = decide("train", [stop()])
    assert not decision.open
    assert decision.stopping == (stop(),)


@pytest.mark.parametrize("grade", ["warn", "note"])
def test_lesser_findings_do_not(grade: str) -> None:
    assert decide("train", [Finding("CORPUS/x", grade, "corpus")]).open  # type: ignore[arg-type]  # parametrised literal


def test_a_waiver_opens_it_only_with_a_reason_and_only_for_its_finding() -> None:
    assert not decide("train", [stop()], [Waiver("CORPUS/some-check", "  ")]).open
    assert not decide("train", [stop()], [Waiver("CORPUS/other", "because")]).open
    decision = decide("train", [stop()], [Waiver("CORPUS/some-check", "known and harmless here")])
    assert decision.open
    assert decision.waived[0][1].because == "known and harmless here"


def test_a_finding_survives_a_trip_through_json() -> None:
    finding = Finding("NUMERIC/x", "warn", "train", "step 3", {"loss": 2.5}, ("a", "b"), "too large a rate")
    assert Finding.from_dict({**finding.to_dict(), "step": 3}) == finding


def test_a_finding_of_an_unknown_family_is_refused() -> None:
    with pytest.raises(ValueError, match="known family"):
        Finding("NONSENSE/x", "stop", "corpus")


def test_a_finding_without_words_still_shows_its_numbers() -> None:
    assert "n 3" in render(stop()).seen


@pytest.mark.parametrize("identity", known_ids())
def test_every_catalogue_entry_is_whole_in_both_languages(identity: str) -> None:
    for lang in ("en", "de"):
        words = entry(identity, lang)
        assert words is not None
        assert identity.partition("/")[0] in FAMILIES
        for part in ("title", "seen", "why", "next"):
            assert str(words.get(part, "")).strip(), f"{identity} has no {part} in {lang}"
        assert words.get("causes"), f"{identity} has no causes in {lang}"


def test_every_finding_that_the_code_can_make_has_words() -> None:
    made = re.compile(r'"((?:' + "|".join(FAMILIES) + r')/[a-z0-9-]+)"')
    known = set(known_ids())
    missing = {
        f"{path.relative_to(SOURCE)}: {identity}"
        for path in SOURCE.rglob("*.py")
        for identity in made.findall(path.read_text(encoding="utf-8"))
        if identity not in known
    }
    assert not missing


@pytest.mark.parametrize(
    ("lang", "shown"), [("en", "0.1465 of 554,496 in 251"), ("de", "0,1465 of 554.496 in 251")]
)
def test_numbers_are_written_as_the_language_writes_them(lang, shown):
    numbers = {"share": 0.14651, "tokens": 554496, "documents": 251}
    assert catalogue._fill("{share} of {tokens} in {documents}", numbers, lang) == shown


def test_a_sentence_may_say_how_many_digits_it_wants_and_a_command_keeps_its_points():
    assert catalogue._fill("{loss:.2f}", {"loss": 1.2345}, "de") == "1,23"
    assert catalogue._fill_commands("--set train.rate={rate}", {"rate": 0.0025}) == "--set train.rate=0.0025"
