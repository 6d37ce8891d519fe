"""Where the tone of answers comes from: compared with the rows and with the corpus, and named only where the numbers carry it."""

from __future__ import annotations

import pytest

from umsicht.evaluate import labels
from umsicht.finetune.tone import Tone, compare, corpus_share, judge

pytestmark = pytest.mark.skipif(not labels.available(), reason="the extra [corpus] is not installed")

ADVERT = "Order now and save 50 % on our amazing, award-winning headphones, only while stocks last! Shop today and get a free gift!"
PLAIN = "The town lies on the river. It was founded in 1204, and most of its people work in the mills of the valley."


def rows(text: str, count: int) -> list[dict[str, str]]:
    return [{"prompt": "", "language": "en", "text": text} for _ in range(count)]


def report(promotional: int, scored: int) -> dict[str, object]:
    return {"labels": {"shop": {"promotional": [1, promotional], "scored": [2, scored]}}}


def ids(tones: list[Tone]) -> list[str]:
    return [finding.id for finding in judge([one for one in tones if one.name == "promotional"], "run")]


def test_promotional_answers_from_plain_rows_and_a_promotional_corpus_come_from_the_corpus() -> None:
    tones = compare(rows(ADVERT, 20), rows(PLAIN, 40), report(80, 100))
    (finding,) = judge([one for one in tones if one.name == "promotional"], "run")
    assert finding.id == "FINETUNE/tone-from-corpus"
    assert (
        finding.numbers["answers"] == 1.0
        and finding.numbers["rows"] == 0.0
        and finding.numbers["corpus"] == 0.8
    )


def test_promotional_rows_are_named_where_the_answers_follow_them() -> None:
    assert ids(compare(rows(ADVERT, 20), rows(ADVERT, 40), report(0, 100))) == ["FINETUNE/tone-from-rows"]


def test_plain_answers_give_no_finding_whatever_the_corpus_holds() -> None:
    assert ids(compare(rows(PLAIN, 20), rows(PLAIN, 40), report(90, 100))) == []


def test_a_plain_corpus_is_not_blamed() -> None:
    assert ids(compare(rows(ADVERT, 20), rows(PLAIN, 40), report(0, 100))) == []


def test_two_of_twenty_answers_prove_nothing_against_few_rows() -> None:
    mixed = [*rows(ADVERT, 2), *rows(PLAIN, 18)]
    assert ids(compare(mixed, rows(PLAIN, 10), report(80, 100))) == []


def test_too_few_or_too_short_answers_decide_nothing() -> None:
    assert compare(rows(ADVERT, 5), rows(PLAIN, 40), report(80, 100)) == []
    assert compare(rows("Buy now!", 40), rows(PLAIN, 40), report(80, 100)) == []


def test_the_share_of_the_corpus_is_by_scored_text() -> None:
    assert corpus_share(report(30, 120), "promotional") == 0.25
    assert corpus_share({}, "promotional") == 0.0
