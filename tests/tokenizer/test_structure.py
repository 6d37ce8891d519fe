"""What a tokenizer.json says without a text: ids nobody can reach, special tokens that people write, chance, tokens over words; bytes in all three spellings."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from umsicht.tokenizer import roundtrip, structure
from umsicht.tokenizer.core import Tokenizer
from umsicht.tokenizer.spelling import entries, speller

MARKS = ("<unk>", "</s>")


def unigram(*tokens: str, marks: tuple[str, ...] = MARKS, **more: Any) -> Tokenizer:
    """A SentencePiece-like file: these tokens beside single letters, `▁` for a space."""
    letters = [f"▁{chr(97 + n)}" for n in range(26)] + [chr(97 + n) for n in range(26)]
    vocabulary = [*marks, "▁", *letters, *tokens]
    definition: dict[str, Any] = {
        "version": "1.0",
        "added_tokens": [
            {
                "id": number,
                "content": name,
                "special": True,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
            }
            for number, name in enumerate(marks)
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never"},
        "post_processor": None,
        "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never"},
        "model": {
            "type": "Unigram",
            "unk_id": 0,
            "vocab": [[token, -1.0] for token in vocabulary],
            "byte_fallback": False,
        },
    }
    return Tokenizer({**definition, **more}, check=False)


def named(tokenizer: Tokenizer) -> dict[str, str]:
    """Findings and their grades."""
    return {found.id: found.grade for found in structure.findings(tokenizer)}


def test_a_sound_file_is_left_alone() -> None:
    assert named(unigram("▁the", "▁and", "▁1999", "ing")) == {}


@pytest.mark.parametrize(
    ("marks", "expected"), [(("<unk>", "Note"), True), (("<unk>", "</s>", "[PAD]"), False)]
)
def test_a_special_token_that_people_write_is_named(marks: tuple[str, ...], expected: bool) -> None:
    assert ("TOKENIZER/special-is-text" in named(unigram(marks=marks))) is expected


def test_a_file_without_an_end_is_named() -> None:
    assert named(unigram(marks=("<unk>",))) == {"TOKENIZER/no-end-token": "warn"}


def test_tokens_over_several_words_are_named_and_words_with_marks_are_not() -> None:
    spanning = unigram(*(f"▁of▁{chr(97 + n)}he" for n in range(12)))
    assert named(spanning) == {"TOKENIZER/spans-words": "warn"}
    assert named(unigram(*(f"▁don't{chr(97 + n)}" for n in range(12)))) == {}


def test_tokens_of_whole_numbers_are_noted() -> None:
    assert named(unigram(*(f"▁{1990 + n}" for n in range(12)))) == {"TOKENIZER/whole-numbers": "note"}


def bpe() -> dict[str, Any]:
    """A BPE file of 26 letters and 20 merges."""
    letters = [chr(97 + n) for n in range(26)]
    merges = [[letter, "z"] for letter in letters[:20]]
    names = [*letters, *("".join(pair) for pair in merges)]
    return {
        "added_tokens": [],
        "model": {"type": "BPE", "vocab": {name: n for n, name in enumerate(names)}, "merges": merges},
    }


def test_a_token_that_no_merge_leads_to_is_dead() -> None:
    whole = bpe()
    assert structure.dead(whole, 46) == structure.Dead(0, [])
    cut = copy.deepcopy(whole)
    del cut["model"]["merges"][10:]
    assert structure.dead(cut, 46).unreachable == [f"{chr(97 + n)}z" for n in range(10, 20)]
    spaced = copy.deepcopy(whole)
    spaced["model"]["merges"] = [" ".join(pair) for pair in whole["model"]["merges"]]
    assert structure.dead(spaced, 46) == structure.Dead(0, [])


def test_an_id_without_a_token_is_dead() -> None:
    assert structure.dead(bpe(), 50).empty == 4


def test_chance_in_the_merges_stops() -> None:
    definition = copy.deepcopy(unigram().definition)
    definition["model"] = {**bpe()["model"], "dropout": 0.1}
    assert named(Tokenizer(definition, check=False))["TOKENIZER/random-ids"] == "stop"


def test_entries_are_read_from_tables_and_from_lists() -> None:
    assert list(entries({"model": {"vocab": {"a": 3, "b": 1}}})) == [("a", 3), ("b", 1)]
    assert list(entries({"model": {"vocab": [["a", -1.0], ["b", -2.0]]}})) == [("a", 0), ("b", 1)]


@pytest.mark.parametrize(
    ("definition", "token", "expected"),
    [
        ({"model": {}, "pre_tokenizer": {"type": "ByteLevel"}}, "Ġdas", b" das"),
        ({"model": {}, "pre_tokenizer": {"type": "ByteLevel"}}, "▁", "▁".encode()),
        ({"model": {"byte_fallback": True}, "decoder": {"type": "Metaspace"}}, "<0x0A>", b"\n"),
        ({"model": {}, "decoder": {"type": "Metaspace"}}, "<0x0A>", b"<0x0A>"),
        ({"model": {}, "decoder": {"type": "Metaspace"}}, "▁das", b" das"),
        ({"model": {}}, "▁das", "▁das".encode()),
    ],
)
def test_a_token_is_spelled_as_its_file_spells(
    definition: dict[str, Any], token: str, expected: bytes
) -> None:
    assert speller(definition)(token) == expected


def test_what_only_composes_characters_is_noted_and_what_loses_them_stops() -> None:
    composing = unigram("é", normalizer={"type": "NFC"})
    lowering = unigram(normalizer={"type": "Lowercase"})
    noted = roundtrip.first_difference(composing, "accent", "e\u0301")
    lost = roundtrip.first_difference(lowering, "capital", "A")
    assert noted is not None and noted.kind == roundtrip.COMPOSED
    assert lost is not None and lost.kind != roundtrip.COMPOSED
    grades = {
        (found.numbers["kind"], found.grade)
        for found in roundtrip.findings(composing, [("accent", "e\u0301")])
        if "kind" in found.numbers
    }
    assert (roundtrip.COMPOSED, "note") in grades
    assert all(grade == "stop" for kind, grade in grades if kind != roundtrip.COMPOSED)
