"""Which bytes are scored: bounded, whole characters, the same everywhere, small slices pooled by the rule of the tokens stage."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from umsicht.evaluate import heldout


@dataclass(frozen=True)
class Doc:
    id: str
    text: str
    slice: str


def doc(text: str, name: str) -> Doc:
    return Doc(hashlib.sha256((name + text).encode()).hexdigest()[:32], text, name)


def test_slices_are_bounded_and_long_documents_cut() -> None:
    docs = [doc(f"{i} " + "größer " * 4_000, "book.de") for i in range(30)]
    chosen = heldout.choose(docs, 100_000)
    assert sum(len(e.data) for e in chosen) <= 100_000
    assert len(chosen) >= 4
    assert all(len(e.data) <= 25_000 for e in chosen)
    assert not any(e.whole for e in chosen)
    assert all(d.text.startswith(e.text) for e in chosen for d in docs if d.id == e.id)


def test_order_of_the_corpus_does_not_matter() -> None:
    docs = [doc(f"text {i} " * 500, "web.en") for i in range(40)]
    assert heldout.choose(docs, 60_000) == heldout.choose(docs[::-1], 60_000)


def test_small_slices_are_pooled_as_the_tokens_stage_does() -> None:
    docs = [doc(f"{i} " + "x" * 10_000, "web.en") for i in range(9)]
    docs += [doc(f"{i}{lang} " + "y" * 10_000, f"talk.{lang}") for lang in ("fi", "et") for i in range(3)]
    docs += [doc("kurz", "poem.tr")]
    assert {e.slice for e in heldout.choose(docs, 100_000)} == {"web.en", "talk.other", "small.other"}
    assert heldout.pooled(docs) == {
        "talk.fi": "talk.other",
        "talk.et": "talk.other",
        "poem.tr": "small.other",
    }


def test_round_trip_on_disk(tmp_path: Path) -> None:
    chosen = heldout.choose([doc("a\u2028b\r\nc\x85d " * 9_000, "web.en"), doc("kurz", "web.de")], 50_000)
    heldout.save(chosen, tmp_path)
    assert heldout.load(tmp_path) == chosen
    assert heldout.digest(heldout.load(tmp_path)) == heldout.digest(chosen)


@given(st.text(max_size=60), st.integers(1, 80))
def test_cuts_never_split_a_character(text: str, limit: int) -> None:
    chosen = heldout.choose([doc(text, "a.b")] if text else [], limit)
    for excerpt in chosen:
        assert text.startswith(excerpt.text)
        assert excerpt.whole == (excerpt.text == text)
