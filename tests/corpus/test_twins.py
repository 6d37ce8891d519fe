"""Kernels that read code and JSON, against the expressions and the general reader that they stand in for."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from umsicht.corpus.kernels import features, oracle
from umsicht.corpus.kernels.fold import table_arguments
from umsicht.corpus.kernels.pairs import mark_shared
from umsicht.corpus.kernels.spans import spans_from, words_of
from umsicht.corpus.label.classifier import BITS, LIMIT
from umsicht.corpus.label.code import lines_of_code, shapes_of
from umsicht.corpus.sources import jsonl

SIGNS = """def class if x foo.bar ( ) [ ] { } ; : , = == += := <<= # #include @a @a.b(c) // /* -- -> . ! else end
    SELECT fi _a 9 ~ ` <!-- <?php #! */ () (a,b) ... ## ](u) {#x} 'a' "k" 'k': ''' * -x"""
CODE = [
    *SIGNS.split(),
    '"""',
    *["# define", "-- x", " ", "  ", "    ", "\t", "\x1c", "\r", "x" * 90, *["\n"] * 8],
]
SOUND = st.dictionaries(
    st.sampled_from(["a", "tex", "textt", "te xt"]),
    st.text(max_size=8)
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.booleans()
    | st.none(),
    max_size=3,
)


def utf8(text: str) -> str:
    return text.encode("utf-8", "ignore").decode()


def texts_of(block: bytes) -> list[str] | None:
    lines = jsonl._lines_of(block)
    found = jsonl._flat(block, *lines, "text") if lines is not None else None
    return found.to_pylist() if found is not None else None


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(CODE), max_size=250), st.sampled_from([0.2, 0.42, 0.75]))
def test_lines_of_code_are_counted_as_by_expressions(parts: list[str], share: float) -> None:
    text = "".join(parts)
    if "```" not in text and "~~~" not in text:
        assert bool(shapes_of([text.encode()], [share])[0]) == lines_of_code(text, share)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(SOUND, st.text(max_size=30).map(utf8), SOUND), min_size=1, max_size=5),
    st.booleans(),
    st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", " : ")]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_texts_of_flat_objects_are_those_that_were_written(
    rows: list[tuple[dict[str, Any], str, dict[str, Any]]], ascii_only: bool, signs: tuple[str, str], end: str
) -> None:
    whole = [{**before, "text": text, **after} for before, text, after in rows]
    block = end.join(json.dumps(row, ensure_ascii=ascii_only, separators=signs) for row in whole)
    assert texts_of(block.encode("utf-8", "replace")) == [text for _, text, _ in rows]


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=12), st.integers(0, 60), st.sampled_from(list('"\\{}[],:0ud8 -.e\x00n')))
def test_a_line_with_a_wrong_sign_is_read_as_the_general_reader_reads_it_or_not_at_all(
    text: str, place: int, sign: str
) -> None:
    line = json.dumps({"n": -1.5e3, "text": text, "t": True})
    changed = (line[:place] + sign + line[place + 1 :]).encode()
    found = texts_of(changed)
    if found is not None:
        assert found == [orjson.loads(changed)["text"]]


@pytest.mark.parametrize(
    "line",
    [
        r'{"text": "a", "text": "b"}',
        r'{"text": "\ud800"}',
        r'{"text": "\udc00x"}',
        r'{"text": "\ud83d\u0041"}',
        r'{"te\u0078t": "a"}',
        r'{"text": "a", "m": {"x": 1}}',
        r'{"text": null}',
        r'{"text": "a", "x": 01}',
        r'{"text": "a", "x": NaN}',
        r'{"text": "a",}',
        r'{"text": "a"}}',
        r'{"text": "a" "x": 1}',
        "{}",
    ],
)
def test_what_is_not_plainly_sound_is_left_to_the_general_reader(line: str) -> None:
    assert texts_of(line.encode()) is None


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(0, 2**64 - 1), max_size=40),
    st.lists(st.integers(0, 2**20), max_size=20),
    st.integers(1, 44),
)
def test_keys_with_a_shared_head_are_marked(keys: list[int], heads: list[int], bits: int) -> None:
    table = np.array(sorted([*keys, *(head << bits for head in heads)]), np.uint64)
    wanted = np.array(sorted({*heads}), np.uint64)
    out = np.zeros(len(table), bool)
    mark_shared(table, bits, wanted, out)
    assert out.tolist() == np.isin(table >> np.uint64(bits), wanted).tolist()


ROOM = 2 * LIMIT + features.SHAPES
MASK = (1 << 64) - 1


def plain_hashes(words: list[int]) -> list[int]:
    """Each word, and behind it its pair with the word before."""
    pair = int(features.PAIR)
    pairs = [[], *([(before * pair + word) & MASK] for before, word in itertools.pairwise(words))]
    return [value for word, more in zip(words, pairs, strict=False) for value in (word, *more)]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["word", "Wort", "A1", "42", "9,000", "50%", "$", "€", "http://x", "!", "日本", "\n", "ß"]
        ),
        max_size=90,
    ),
    st.integers(0, 3),
)
def test_a_score_is_the_sum_of_the_weights_of_different_features(parts: list[str], seed: int) -> None:
    spans = spans_from([" ".join(parts), "", "other words here"])
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(1 << BITS) + 1).astype(np.float32)
    words = words_of(spans)
    margins = np.zeros(len(spans), np.float32)
    features.score_many(
        spans.buffer,
        spans.starts,
        spans.ends,
        words.hashes,
        words.offsets,
        *table_arguments(),
        BITS,
        weights,
        LIMIT,
        margins,
    )
    for i, (start, end) in enumerate(zip(spans.starts.tolist(), spans.ends.tolist(), strict=True)):
        mine = words.hashes[words.offsets[i] : words.offsets[i + 1]]
        out, shapes = np.zeros(ROOM, np.uint32), np.zeros(ROOM, np.uint64)
        n = features.numbers(spans.buffer, start, end, mine, BITS, shapes, out)
        hashes = [oracle.mix(value) for value in plain_hashes(mine.tolist())]
        assert out[: len(hashes)].tolist() == [value >> (64 - BITS) for value in hashes]
        found = dict.fromkeys(out[:n].tolist())
        total = sum((float(weights[number]) for number in found), 0.0)
        assert margins[i] == np.float32(float(weights[-1]) + total / max(len(found), 1) ** 0.5)
