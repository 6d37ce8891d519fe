"""Readers of what other people made: whatever bytes they are given, they answer, refuse with a sentence, or count a broken member."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from umsicht.corpus.sources import Broken, Raw, SourceInfo, Unit, read_unit
from umsicht.corpus.sources.files import reader_of
from umsicht.diagnose.logs.open import read_log
from umsicht.findings import UserError
from umsicht.recipe import Recipe
from umsicht.recipe.load import recipe_from_text

BOUNDED = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

RECIPE = """name: fuzz
preset: tiny
seed: 3
corpus:
  sources:
    - {name: a, path: texts, domain: web, language: de, licence: MIT}
tokenizer: {vocab_size: 512}
train: {budget: {steps: 4}}
"""
WARC = (
    b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://example.org/\r\nContent-Type: application/http;msgtype=response\r\n"
    b"WARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-000000000001>\r\nContent-Length: 151\r\n\r\n"
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 84\r\n\r\n"
    b"<html><body><main><p>Ein Satz, der lang genug ist, um Text zu sein.</p></main></body></html>\r\n\r\n"
)
HTML = b"<!doctype html><html><head><meta charset='utf-8'><title>x</title></head><body><main><p>Ein Satz &amp; noch einer.</p><table><tr><td>1"
JSONL = (
    b'{"text": "eins", "language": "de"}\n{"text": "zwei"}\n{"text": 3}\n\n["text"]\n{"text": "dr\\u0065i"}\n'
)
LOGS = {
    "log.csv": b"step;train/loss;val/all/loss\n1;8,3;8,2\n2;7,9;NaN\n3;7,1;7,5\n",
    "log.jsonl": b'{"step": 1, "train/loss": 8.3}\n{"step": 2, "train/loss": "NaN"}\n{"step": 2, "train/lo',
    "trainer_state.json": json.dumps(
        {"log_history": [{"step": 1, "loss": 8.0}, {"step": 2, "loss": 7.0}]}
    ).encode(),
    "train.log": b"iter 0: loss 10.9, time 12ms\niter 10: loss 9.1, time 11ms\niter 20: loss 8.2, time 11ms\n",
    "events.out.tfevents.1.x": b"\x18\x00\x00\x00\x00\x00\x00\x00\xa3\x7fK\x22\tbrain.Event:2" + b"\x00" * 20,
}


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """`whole` cut, with bytes changed, removed, doubled or put in."""
    data = bytearray(whole)
    for _ in range(draw(st.integers(1, 6))):
        place = draw(st.integers(0, max(0, len(data) - 1)))
        kind = draw(st.sampled_from(("cut", "change", "remove", "double", "insert")))
        length = draw(st.integers(1, 40))
        if kind == "cut":
            del data[place:]
        elif kind == "change" and data:
            data[place] = draw(st.integers(0, 255))
        elif kind == "remove":
            del data[place : place + length]
        elif kind == "double":
            data[place:place] = data[place : place + length]
        else:
            data[place:place] = draw(st.binary(max_size=length))
    return bytes(data)


def read(path: Path) -> list[Raw | Broken]:
    """Everything that the reader of a file's kind gives."""
    reader = reader_of(path.name)
    assert reader is not None
    unit = Unit(SourceInfo("s", "web"), reader, (str(path),), (path.name,), path.stat().st_size)
    return list(read_unit(unit, 100_000))


@BOUNDED
@given(st.one_of(damaged(RECIPE.encode()), st.binary(max_size=200)))
def test_a_recipe_is_a_recipe_or_refused_with_a_place(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    try:
        assert isinstance(recipe_from_text(text, "fuzz.yaml"), Recipe)
    except UserError as error:
        assert error.what and "fuzz.yaml" in error.where + error.what


KEYS = st.sampled_from(
    ("name", "seed", "corpus", "train", "model", "tokens", "preset", "sources", "budget", "x")
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=8,
)


@BOUNDED
@given(st.dictionaries(KEYS, VALUES, max_size=5))
def test_a_recipe_of_any_shape_is_accepted_or_refused(tree: dict[str, object]) -> None:
    try:
        recipe_from_text(json.dumps(tree), "fuzz.yaml")
    except UserError as error:
        assert error.what


@BOUNDED
@given(data=st.one_of(damaged(JSONL), st.binary(max_size=300)))
def test_every_line_of_jsonl_is_a_document_or_a_named_broken_one(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(data)
    lines = [line for line in io.BytesIO(data) if line.strip()]
    items = read(path)
    assert len(items) <= len(lines) + 1
    assert all(isinstance(item, Raw) or item.reason for item in items)


@BOUNDED
@given(data=damaged(WARC + WARC), packed=st.booleans())
def test_a_damaged_archive_gives_pages_or_says_what_is_broken(
    data: bytes, packed: bool, tmp_path: Path
) -> None:
    path = tmp_path / ("pages.warc.gz" if packed else "pages.warc")
    path.write_bytes(gzip.compress(data) if packed else data)
    assert all(isinstance(item, Raw) or item.reason for item in read(path))


@BOUNDED
@given(data=damaged(gzip.compress(WARC)))
def test_a_damaged_packed_archive_is_never_fatal(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "pages.warc.gz"
    path.write_bytes(data)
    assert all(isinstance(item, Raw) or item.reason for item in read(path))


@BOUNDED
@given(data=st.one_of(damaged(HTML), st.binary(max_size=300)))
def test_a_page_gives_text_or_is_named(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_bytes(data)
    assert all(isinstance(item, Raw) or item.reason for item in read(path))


@pytest.mark.parametrize("name", LOGS)
@settings(BOUNDED, max_examples=30)
@given(data=st.data())
def test_a_foreign_log_gives_curves_or_a_sentence(name: str, data: st.DataObject, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(data.draw(damaged(LOGS[name])))
    try:
        curves = read_log(path)
    except UserError as error:
        assert error.what
    else:
        assert curves is not None
