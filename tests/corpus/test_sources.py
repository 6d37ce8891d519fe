"""Readers on real and on broken input."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from umsicht.corpus.normalise import Undecodable, decode, normalise
from umsicht.corpus.sources import Broken, Raw, SourceInfo, Unit, read_unit
from umsicht.corpus.sources.files import reader_of
from umsicht.corpus.sources.hub import hub_units
from umsicht.corpus.sources.starter import markup_to_text, starter_units
from umsicht.corpus.sources.web import html_to_text
from umsicht.findings import UserError
from umsicht.recipe.corpus import NormaliseSettings, SourceSettings


def read(path: Path, name: str | None = None) -> list[Raw | Broken]:
    reader = reader_of(name or path.name)
    assert reader is not None
    unit = Unit(SourceInfo("s", "web"), reader, (str(path),), (name or path.name,), path.stat().st_size)
    return list(read_unit(unit, 8_000_000))


def _data() -> Path:
    folder = os.environ.get("UMSICHT_TEST_DATA", "")
    if not folder:
        pytest.skip("UMSICHT_TEST_DATA is not set")
    return Path(folder)


PAGES = {
    "warcio-example-bad-non-chunked.warc.gz": 1,
    "warcio-example-iana.org-chunked.warc": 1,
    "warcio-example-resource.warc.gz": 1,
    "warcio-example-trunc.warc": 1,
    "warcio-example-wget-bad-target-uri.warc.gz": 3,
    "warcio-example-wrong-chunks.warc.gz": 1,
    "warcio-example.arc": 1,
    "warcio-example.arc.gz": 1,
    "warcio-example.warc": 1,
    "warcio-example.warc.gz": 1,
    "whirlwind.warc.gz": 1,
    "whirlwind.warc.wet.gz": 1,
}


def test_every_archive_gives_its_pages_or_says_why_not() -> None:
    found = {}
    for path in sorted((_data() / "warc").iterdir()):
        if reader_of(path.name) == "warc":
            items = read(path)
            assert items, path.name
            found[path.name] = sum(isinstance(item, Raw) for item in items)
    assert {name: n for name, n in found.items() if n} == PAGES


def test_books_as_pages_give_their_text() -> None:
    (page,) = read(_data() / "books" / "html" / "de-die-verwandlung.html.gz")
    assert isinstance(page, Raw)
    with gzip.open(_data() / "books" / "de-die-verwandlung.txt.gz", "rt", encoding="utf-8") as file:
        words = set(file.read().split())
    text = page.text if isinstance(page.text, str) else page.text.decode()
    assert len(words & set(text.split())) / len(words) > 0.95
    assert "<p>" not in text


def test_folders_of_data_sets_are_read(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="the package datasets is not installed")
    rows = [{"body": "first", "lang": "en"}, {"body": None, "lang": "en"}, {"body": "zweiter", "lang": "de"}]
    datasets.DatasetDict({"train": datasets.Dataset.from_list(rows)}).save_to_disk(tmp_path / "set")
    source = SourceSettings(
        name="s", kind="huggingface", path=str(tmp_path / "set"), text_field="body", language_field="lang"
    )
    (unit,) = hub_units(source, tmp_path)
    found = list(read_unit(unit, 8_000_000))
    assert [(item.text, item.language) for item in found if isinstance(item, Raw)] == [
        ("first", "en"),
        ("zweiter", "de"),
    ]
    assert [item.reason for item in found if isinstance(item, Broken)] == ["no-text"]


def test_a_data_set_on_the_hub_needs_a_revision(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        hub_units(SourceSettings(name="s", kind="huggingface", path="some/where"), tmp_path)


def test_the_other_extractor_finds_the_same_content() -> None:
    pytest.importorskip("trafilatura", reason="the package trafilatura is not installed")
    page = (
        "<html><body><nav><a href='/'>Home page</a></nav><article><h1>Title</h1><p>"
        + "A long sentence about stones. " * 20
        + "</p></article></body></html>"
    )
    text = html_to_text(page.encode(), "trafilatura")
    assert "A long sentence about stones." in text and "Home page" not in text


def test_navigation_is_left_out() -> None:
    page = (
        "<html><body><nav><a href='/'>Home page</a><a href='/x'>Imprint</a></nav><main><h1>Title</h1><p>"
        + "A long sentence about stones. " * 20
    )
    text = html_to_text(page.encode())
    assert "A long sentence about stones." in text and "Imprint" not in text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\xef\xbb\xbfgr\xc3\xbcn", "grün"),
        ("grün".encode("utf-16"), "grün"),
        (
            "Das Mädchen hört schöne Lieder, und süße Früchte fallen über die Straße. ".encode("latin-1") * 4,
            "Das Mädchen hört schöne Lieder, und süße Früchte fallen über die Straße. " * 4,
        ),
    ],
)
def test_decoding(data: bytes, text: str) -> None:
    assert decode(data)[0] == text


def test_noise_is_not_decoded() -> None:
    with pytest.raises(Undecodable):
        decode(bytes(range(128, 256)) * 3 + bytes(range(32)) * 20)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\r\nb\rc\u2028d", "a\nb\nc\nd"),
        ("a\x00b\x07c\td", "abc\td"),
        ("\n \n  indented\n\n", "  indented"),
        ("ﬁ ² e\u0301 \u00a0x", "ﬁ ² e\u0301 \u00a0x"),
        ("👩‍👩‍👧 é עברית", "👩‍👩‍👧 é עברית"),
        ("SchÃ¶ne GrÃ¼ÃŸe aus MÃ¼nchen", "Schöne Grüße aus München"),
        ("Größe Ã und â sind Buchstaben", "Größe Ã und â sind Buchstaben"),
    ],
)
def test_normalising_loses_nothing_a_reader_would_miss(text: str, expected: str) -> None:
    assert normalise(text, NormaliseSettings()) == expected


def test_service_markup_becomes_text() -> None:
    assert (
        markup_to_text("<p>Adds <code>x</code>.</p> <ul> <li> <p>One &lt; two</p> </li></ul>")
        == "Adds `x`.\n-\nOne < two"
    )


def test_the_standard_library_alone_gives_a_starter() -> None:
    units, missing = starter_units("starter", ["stdlib"], 200_000)
    assert not missing and [unit.source.name for unit in units] == [
        "starter.stdlib-code",
        "starter.stdlib-docs",
    ]
    code, docs = (
        {item.origin.partition("#")[0] for item in read_unit(unit, 8_000_000) if isinstance(item, Raw)}
        for unit in units
    )
    assert code and docs and not code & docs
