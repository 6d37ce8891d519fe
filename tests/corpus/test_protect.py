"""Planted leaks are found in every form; the training split and unrelated text are not flagged."""

from __future__ import annotations

import gzip
import json
import os
import textwrap
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest

from umsicht.corpus.kernels.spans import spans_from
from umsicht.corpus.protect import Fingerprint, Piece, fingerprint, pieces_of_rows, scan

ITEM = (
    "A ferry crosses the strait every forty minutes and carries at most ninety-three passengers; on Sunday 1,240 people "
    "waited at the pier before nine. How many crossings were needed until the last of them had reached the island?"
)
ANSWER = "Fourteen crossings, because the last boat is not full"
SHORT = "What colour is the ninth lamp?"
PADDING = "The market opens early. Fish is sold near the gate, and bread further down the street. " * 6

FORMS: dict[str, Callable[[str], str]] = {
    "as it is": lambda t: t,
    "upper case": str.upper,
    "lower case": str.lower,
    "re-wrapped at 40": lambda t: textwrap.fill(t, 40),
    "one word a line": lambda t: "\n".join(t.split()),
    "double spaces": lambda t: t.replace(" ", "  "),
    "tabs": lambda t: t.replace(" ", "\t"),
    "no punctuation": lambda t: "".join(c for c in t if c.isalnum() or c in " -"),
    "other punctuation": lambda t: t.replace(", ", " – ").replace(". ", " ! ").replace(";", " …"),
    "embedded": lambda t: PADDING + t + PADDING,
    "embedded without space": lambda t: PADDING.strip() + "\n" + t + "\n" + PADDING,
    "quoted": lambda t: f"“{t}”",
    "markdown quote": lambda t: "\n".join(f"> {line}" for line in textwrap.wrap(t, 50)),
    "html": lambda t: f"<div class='q'><p>{t}</p></div>",
    "json": lambda t: json.dumps({"question": t}),
    "csv": lambda t: f'17,"{t}",14',
    "bold words": lambda t: " ".join(f"**{w}**" for w in t.split()),
    "full width": lambda t: "".join(chr(ord(c) + 0xFEE0) if c.isalpha() and c.isascii() else c for c in t),
    "full width throughout": lambda t: "".join(
        chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else "\u3000" for c in t
    ),
    "mathematical letters": lambda t: "".join(chr(ord(c) + 0x1D3BF) if "A" <= c <= "Z" else c for c in t),
    "circled letters": lambda t: "".join(chr(ord(c) - 97 + 0x24D0) if "a" <= c <= "z" else c for c in t),
    "other digits": lambda t: t.translate({48 + k: 0x0660 + k for k in range(10)}),
    "invisible marks": lambda t: t.replace("e", "e\u200b").replace("a", "\u2060a\u200e"),
    "decomposed": lambda t: unicodedata.normalize("NFD", t),
    "comment": lambda t: "\n".join(f"# {line}" for line in textwrap.wrap(t, 60)),
    "twice": lambda t: t + "\n\n" + t,
    "cut at the end": lambda t: t[: int(len(t) * 0.8)],
}


@pytest.fixture(scope="module")
def known() -> Fingerprint:
    rows = [{"id": "7", "question": ITEM, "answer": ANSWER}, {"id": "8", "question": SHORT}]
    return fingerprint(pieces_of_rows("ferries", rows))


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_found_and_attributed(known: Fingerprint, form: str) -> None:
    hits = scan(spans_from([PADDING, FORMS[form](ITEM), PADDING]), known)
    assert {(hit.text, hit.set, hit.item, hit.field) for hit in hits} == {(1, "ferries", "7", "question")}


def test_short_pieces_are_found_whole_or_on_a_line(known: Fingerprint) -> None:
    texts = [
        f"{PADDING} {ANSWER.upper()}! {PADDING}",
        f"{PADDING}\n{SHORT}\n{PADDING}",
        f"{PADDING} {SHORT} {PADDING}",
    ]
    assert {(hit.text, hit.field) for hit in scan(spans_from(texts), known)} == {
        (0, "answer"),
        (1, "question"),
    }


def test_a_few_shared_words_are_no_leak(known: Fingerprint) -> None:
    half = " ".join(ITEM.split()[:14])
    assert scan(spans_from([half, PADDING, "Fourteen crossings", ""]), known) == []


def test_instructions_of_a_set_are_no_evidence() -> None:
    task = "Read the following passage carefully and then answer the question below in one single short sentence. "
    known = fingerprint(
        Piece(
            "reading",
            str(k),
            "prompt",
            task + f"Number {k} is about {'abcdefghij'[k]} and nothing else at all here.",
        )
        for k in range(10)
    )
    assert scan(spans_from([task + "Something quite different."]), known) == []


def test_fingerprints_survive_saving(known: Fingerprint, tmp_path: Path) -> None:
    known.save(tmp_path / "known.npz")
    again = Fingerprint.load(tmp_path / "known.npz")
    texts = spans_from([ITEM, PADDING, SHORT])
    assert scan(texts, again) == scan(texts, known)


def _data() -> Path:
    folder = os.environ.get("UMSICHT_TEST_DATA", "")
    if not folder:
        pytest.skip("UMSICHT_TEST_DATA is not set")
    return Path(folder)


def _rows(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_gsm8k_test_is_found_in_full_and_train_is_not_flagged() -> None:
    folder = _data()
    known = fingerprint(pieces_of_rows("gsm8k", _rows(folder / "eval-sets" / "gsm8k.jsonl.gz")))
    for split, expected in (("test", 1319), ("train", 0)):
        rows = _rows(folder / "gsm8k" / f"{split}.jsonl.gz")
        hits = scan(spans_from([row["question"] + "\n" + row["answer"] for row in rows]), known)
        assert len({hit.text for hit in hits}) == expected


def test_no_evaluation_item_is_seen_in_books() -> None:
    folder = _data()
    sets = ["arc_challenge", "boolq", "copa", "gsm8k", "human_eval", "openbook_qa", "piqa", "winogrande"]
    known = fingerprint(
        piece
        for name in sets
        for piece in pieces_of_rows(name, _rows(folder / "eval-sets" / f"{name}.jsonl.gz"))
    )
    for book in sorted((folder / "books").glob("*.txt.gz")):
        with gzip.open(book, "rt", encoding="utf-8") as file:
            assert scan(spans_from([file.read()]), known) == [], book.name


SHORT_ITEM = {
    "query": "Wax can be used similarly to",
    "choices": ["the bark of trees", "a soft old rubber", "cold clear water"],
}


@pytest.mark.parametrize(
    ("text", "leaks"),
    [
        ("User: Wax can be used similarly to\nAssistant: a soft old rubber", True),
        ("17. Wax can be used similarly to\n  (A) the bark of trees\n  (B) cold clear water", True),
        ("Wax can be used similarly to,the bark of trees,a soft old rubber,cold clear water", True),
        ("| Wax can be used similarly to | a soft old rubber |", True),
        ("<td>Wax can be used similarly to</td><td>a soft old rubber</td>", True),
        ("They had nothing, a soft old rubber, and no light.", False),
        ("He wrote that wax can be used similarly to oil, and went home.", False),
    ],
)
def test_short_questions_are_found_behind_labels_and_in_cells(text: str, leaks: bool) -> None:
    known = fingerprint(pieces_of_rows("short", [SHORT_ITEM]))
    assert bool(scan(spans_from(["Nothing is here.", text]), known)) == leaks
