"""Readers on real and on broken input."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from umsicht.corpus.normalise import Undecodable, decode, normalise
from umsicht.corpus.sources import Broken, Column, Raw, SourceInfo, Unit, delimited, read_unit
from umsicht.corpus.sources.files import reader_of
from umsicht.corpus.sources.hub import hub_units
from umsicht.corpus.sources.plan import plan_sources, walk
from umsicht.corpus.sources.starter import markup_to_text, starter_units
from umsicht.corpus.sources.web import html_to_text
from umsicht.findings import UserError
from umsicht.recipe.corpus import CorpusSettings, NormaliseSettings, SourceSettings


def read(path: Path, name: str | None = None) -> list[Raw | Broken | Column]:
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


@pytest.mark.parametrize(
    ("charset", "data"),
    [
        ("undefined", "Gr\u00fcn \u201cquoted\u201d".encode()),
        ("utf-16", "Gr\u00fcn \u201cquoted\u201d".encode()),
        ("iso-8859-1", "Gr\u00fcn \u201cquoted\u201d".encode()),
        ("iso-8859-1", "Gr\u00fcn \u201cquoted\u201d".encode("cp1252")),
    ],
)
def test_pages_are_decoded_as_browsers_decode_them(charset: str, data: bytes) -> None:
    head = f'<html><head><meta charset="{charset}"></head><body><p>'.encode()
    assert html_to_text(head + data + b"</p></body></html>") == "Gr\u00fcn \u201cquoted\u201d"


def test_the_encoding_that_the_server_named_is_believed() -> None:
    page = "<html><body><p>\u041f\u0440\u0438\u0432\u0435\u0442</p></body></html>".encode("cp1251")
    assert html_to_text(page, sent_as="windows-1251") == "\u041f\u0440\u0438\u0432\u0435\u0442"


@pytest.mark.parametrize(
    "name", ["a.jsonl.gz", "a.jsonl.zst", "a.txt.bz2", "a.txt.xz", "a.parquet", "a.warc.gz", "a.html.zst"]
)
@pytest.mark.parametrize(
    "data",
    [b"", b"no such format", b"\x28\xb5\x2f\xfd" + b"junk" * 10, b"\x1f\x8b\x08\x00junk", b"PAR1" * 30],
)
def test_broken_files_are_listed(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    found = read(tmp_path / name)
    assert not [item for item in found if isinstance(item, Raw) and item.text] and len(found) <= 1
    assert found or not data


def test_what_stands_before_the_end_of_a_cut_file_is_read(tmp_path: Path) -> None:
    packed = gzip.compress(b"".join(json_line(k) for k in range(3_000)))
    path = tmp_path / "a.jsonl.gz"
    found = rows_of(path, [packed[: len(packed) // 2]])
    assert found[-1] == ("a.jsonl.gz", "unreadable") and len(found) > 1_000
    assert found[:-1] == rows_of(path, [packed])[: len(found) - 1]


def test_a_name_that_is_no_text_is_written_out(tmp_path: Path) -> None:
    try:
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff.txt")).write_text("A text.")
    except OSError:
        pytest.skip("this file system takes only text for names")
    ((path, name, _),) = walk(SourceSettings(name="s", path=str(tmp_path)), tmp_path)
    assert name == "bad\\xff.txt"
    unit = Unit(SourceInfo("s", "web"), "text", (path,), (name,), 7)
    assert list(read_unit(unit, 8_000_000)) == [Raw(b"A text.", name)]


def test_a_mark_at_the_head_of_a_file_of_rows_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"text": "first"}\r\n{"text": "second"}\r\n')
    assert [item.text for item in read(path) if isinstance(item, Raw)] == ["first", "second"]


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


def rows_of(path: Path, texts: list[bytes], **fields: int) -> list[tuple[str, str]]:
    path.write_bytes(b"".join(texts))
    info = SourceInfo("s", "text")
    unit = Unit(info, "jsonl", (str(path),), (path.name,), path.stat().st_size, **fields)  # type: ignore[arg-type]
    found: list[tuple[str, str]] = []
    for item in read_unit(unit, 8_000_000):
        if isinstance(item, Column):
            found += zip(item.origins, item.texts.to_pylist(), strict=True)
        elif isinstance(item, Raw):
            found.append((item.origin, str(item.text)))
        else:
            found.append((item.origin, item.reason))
    return found


def json_line(k: int, end: bytes = b"\n") -> bytes:
    text = f'{k} \u00fc "quoted" \\ {"NaN, Infinity " * (k % 3)}{"many words " * 40}'
    return (
        json.dumps({"id": k, "text": text, "more": [{"text": "x"}]}, ensure_ascii=k % 2 == 0).encode() + end
    )


@pytest.mark.parametrize(
    "odd",
    [
        b"",
        b"\n",
        b'{"text": "a", "text": "b"}\n',
        b'{"text": "a"}{"text": "b"}\n',
        b'{"text":\n"a"}\n',
        b'{"text": null}\n',
        b'{"text": 1}\n',
        b'{"other": "a"}\n',
        b'{"text": "\xff"}\n',
        b'{"text": "a", "other": "\xff"}\n',
        b'{"text": "\\ud800"}\n',
        b'{"text": "a", "n": NaN}\n',
        b' {"text": "indented"}\n',
        b'[{"text": "a"}]\n',
        b'{"text": "a",}\n',
        b'{"text": "cut',
    ],
)
def test_a_block_of_lines_is_read_as_its_lines_are(tmp_path: Path, odd: bytes, monkeypatch: Any) -> None:
    lines = [json_line(k) for k in range(1_500)]
    lines.insert(700, odd if odd.endswith(b"\n") or not odd else odd + b"\n")
    whole = rows_of(tmp_path / "a.jsonl", lines)
    monkeypatch.setattr("umsicht.corpus.sources.jsonl.LEAST", 1 << 40)
    assert whole == rows_of(tmp_path / "a.jsonl", lines)
    assert len(whole) >= 1_500


def test_lines_in_utf_16_are_read(tmp_path: Path) -> None:
    lines = b"".join(json_line(k) for k in range(3_000)).decode()
    expected = [text for _, text in rows_of(tmp_path / "a.jsonl", [lines.encode()])]
    assert [text for _, text in rows_of(tmp_path / "a.jsonl", [lines.encode("utf-16")])] == expected
    settings = SourceSettings.model_validate(
        {"name": "s", "kind": "files", "path": str(tmp_path / "a.jsonl"), "licence": "CC0-1.0"}
    )
    (unit,) = plan_sources(CorpusSettings(sources=(settings,), partition_bytes=100_000), tmp_path).units
    assert unit.stop is None
    cut = rows_of(tmp_path / "a.jsonl", [lines.encode("utf-16")[:-1]])
    assert len(cut) >= 2_999 and cut[-1][1] == "unreadable"


def test_sound_lines_come_as_a_column(tmp_path: Path) -> None:
    for end in (b"\n", b"\r\n"):
        path = tmp_path / "a.jsonl"
        path.write_bytes(b"".join(json_line(k, end) for k in range(12_000)))
        unit = Unit(SourceInfo("s", "text"), "jsonl", (str(path),), ("a.jsonl",), path.stat().st_size)
        found = list(read_unit(unit, 8_000_000))
        columns = [item for item in found if isinstance(item, Column)]
        assert sum(len(column.origins) for column in columns) >= 11_000 and len(columns) >= 2


def test_rows_of_a_table_come_as_a_column_where_all_have_text(tmp_path: Path) -> None:
    texts: list[str | None] = [f"{k} {'many words ' * 30}" for k in range(2_000)]
    for odd in (False, True):
        if odd:
            texts[1_500] = None
        pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet")
        found: list[tuple[str, str | None]] = []
        columns = 0
        for item in read(tmp_path / "a.parquet"):
            if isinstance(item, Column):
                columns += 1
                found += zip(item.origins, item.texts.to_pylist(), strict=True)
            else:
                found.append((item.origin, item.text if isinstance(item, Raw) else None))  # type: ignore[arg-type]
        assert found == [(f"a.parquet#0.{k}", text) for k, text in enumerate(texts)]
        assert columns == 1 + (not odd)


def test_ranges_of_a_file_share_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines = [json_line(k) for k in range(3_000)]
    whole = rows_of(path, lines)
    size = path.stat().st_size
    for cut in (size // 2, len(b"".join(lines[:1_500])), len(b"".join(lines[:1_500])) - 1):
        start = path.read_bytes().find(b"\n", cut - 1) + 1
        first = rows_of(path, lines, stop=cut)
        assert first + rows_of(path, lines, start=start) == whole


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        (b'[{"text": "one"}, {"text": "two"}, "three", {"text": 4}]', ["one", "two", "three", None]),
        (b'{"data": [{"text": "one"}, {"text": "two"}], "version": 1}', ["one", "two"]),
        (b'\xef\xbb\xbf{\n  "text": "alone",\n  "data": []\n}\n', ["alone"]),
        (b'{"text": "one"}\n{"text": "two"}\n', ["one", "two"]),
        ('{"text": "ü"}\n{"text": "two"}\n'.encode("utf-16"), ["ü", "two"]),
        ('[{"text": "ü"}]'.encode("utf-16"), ["ü"]),
        (b'{"text": "cut', [None]),
        (b"", [None]),
    ],
)
def test_json_files_of_every_shape_are_read(tmp_path: Path, content: bytes, texts: list[str | None]) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    found = read(path)
    assert [item.text if isinstance(item, Raw) else None for item in found] == texts


@pytest.mark.parametrize(
    ("column", "field"),
    [
        (pa.array(["a", "b", None]).dictionary_encode(), "text"),
        (pa.array(["a", "b", None]).cast(pa.string_view()), "text"),
        (pa.array([b"a", b"b", None], pa.large_binary()), "text"),
        (pa.array([{"text": "a"}, {"text": "b"}, {"text": None}]), "meta.text"),
    ],
)
def test_texts_of_a_table_are_read_whatever_type_they_are_stored_as(
    tmp_path: Path, column: pa.Array, field: str
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({field.partition(".")[0]: column}), path)
    unit = Unit(
        SourceInfo("s", "text"), "parquet", (str(path),), ("a",), path.stat().st_size, text_field=field
    )
    found = list(read_unit(unit, 8_000_000))
    assert [item.text if isinstance(item, Raw) else None for item in found] in (
        ["a", "b", None],
        [b"a", b"b", None],
    )


@pytest.mark.parametrize(
    ("column", "field"), [([[1]], "text"), ([{"other": "a"}], "text.text"), ([1], "text")]
)
def test_a_column_that_holds_no_text_is_listed(tmp_path: Path, column: list[Any], field: str) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": column}), path)
    unit = Unit(
        SourceInfo("s", "text"), "parquet", (str(path),), ("a",), path.stat().st_size, text_field=field
    )
    (found,) = read_unit(unit, 8_000_000)
    assert isinstance(found, Broken) and found.reason == "no-text"


def tabled(path: Path, data: bytes, **settings: str) -> list[Raw | Broken | Column]:
    path.write_bytes(data)
    kind = reader_of(path.name)
    assert kind == "table"
    unit = Unit(SourceInfo("s", "text"), kind, (str(path),), (path.name,), len(data), **settings)  # type: ignore[arg-type]  # fields that are text
    return list(read_unit(unit, 8_000_000))


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_row_of_a_table_is_a_document(tmp_path: Path, separator: str, mark: str) -> None:
    rows = [
        ["id", "text", "lang"],
        ["1", f'"Zeile eins{separator}\nZeile ""zwei"""', "de"],
        ["2", "short", " en "],
    ]
    data = mark + "".join(separator.join(row) + "\r\n" for row in rows)
    name = "a.tsv" if separator == "\t" else "a.csv"
    assert tabled(tmp_path / name, data.encode(), language_field="lang") == [
        Raw(f'Zeile eins{separator}\nZeile "zwei"'.encode(), f"{name}#0", "de"),
        Raw(b"short", f"{name}#1", "en"),
    ]


def test_rows_with_other_columns_are_listed_and_the_rest_is_read(tmp_path: Path) -> None:
    data = b"id,text\n1,one\n2\n3,three\n4,a,b,c\n5,\n6,six\n"
    found = tabled(tmp_path / "a.csv", data)
    assert [item.text for item in found if isinstance(item, Raw)] == [b"one", b"three", b"", b"six"]
    broken = [item for item in found if isinstance(item, Broken)]
    assert [(item.origin, item.reason) for item in broken] == [
        ("a.csv:3", "wrong-columns"),
        ("a.csv:5", "wrong-columns"),
    ]
    assert broken[1].detail == "4 columns instead of 2"


def test_a_table_without_the_column_says_which_it_has(tmp_path: Path) -> None:
    (item,) = tabled(tmp_path / "a.csv", b"id;body\n1;x\n")
    assert isinstance(item, Broken)
    assert (item.reason, item.detail) == ("no-text", "no column 'text'; columns: id, body")
    assert [item.text for item in tabled(tmp_path / "b.csv", b"id;body\n1;x\n", text_field="body")] == [b"x"]  # type: ignore[union-attr]  # all are read


def test_tables_in_other_encodings_and_packed_are_read(tmp_path: Path) -> None:
    wide = tabled(tmp_path / "a.csv", "text,n\nüber,1\n".encode("utf-16"))
    assert wide == [Raw("über".encode(), "a.csv#0")]
    packed = tabled(tmp_path / "b.csv.gz", gzip.compress(b"text,n\nx,1\n"))
    assert packed == [Raw(b"x", "b.csv.gz#0")]
    (old,) = tabled(tmp_path / "c.csv", "text,n\nüber die Straße,1\n".encode("cp1252"))
    assert isinstance(old, Raw) and isinstance(old.text, bytes)
    assert decode(old.text * 20)[0].startswith("über die Straße")


def test_a_large_table_comes_in_order_and_an_empty_one_says_so(tmp_path: Path) -> None:
    n = 120_000
    data = "text,n\n" + "".join(f'"number {k},\nsaid {"at length " * 12}",{k}\n' for k in range(n))
    assert len(data) > 2 * delimited.BLOCK
    found = tabled(tmp_path / "a.csv", data.encode())
    assert len(found) == n
    assert all(isinstance(item, Raw) and item.origin == f"a.csv#{k}" for k, item in enumerate(found))
    last = found[-1]
    assert isinstance(last, Raw) and isinstance(last.text, bytes)
    assert last.text.startswith(f"number {n - 1},\n".encode())
    (empty,) = tabled(tmp_path / "b.csv", b"")
    assert isinstance(empty, Broken)


def test_a_row_longer_than_a_block_and_a_quote_never_closed_do_not_stop_a_build(tmp_path: Path) -> None:
    long = b"text,n\nfine,1\n" + b"x" * (2 * delimited.BLOCK) + b",2\nlast,3\n"
    assert [type(item) for item in tabled(tmp_path / "a.csv", long)][-1] is Broken
    found = tabled(tmp_path / "b.csv", b'text,n\nfine,1\n"open,2\nlast,3\n')
    last = found[-1]
    assert isinstance(last, Broken) and last.reason == "open-quote"


def test_turns_of_a_conversation_are_one_text(tmp_path: Path) -> None:
    turns = [
        {"role": "user", "content": "Where is the harbour?"},
        {"role": "assistant", "content": "Down the hill, left."},
    ]
    said = [
        {"from": "human", "value": "Where is the harbour?"},
        {"from": "gpt", "value": "Down the hill, left."},
    ]
    rows = [
        {"messages": turns},
        {"messages": said},
        {"messages": ["Where is the harbour?", "Down the hill, left."]},
        {"messages": [1]},
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "b.json").write_text(json.dumps([{"messages": turns}]))
    pq.write_table(pa.table({"messages": [turns]}), tmp_path / "c.parquet")
    source = SourceSettings(name="chat", path=str(tmp_path), text_field="messages")
    items = [
        item
        for unit in plan_sources(CorpusSettings(sources=(source,)), tmp_path).units
        for item in read_unit(unit, 10**6)
    ]
    texts = [item.text for item in items if isinstance(item, Raw)]
    assert texts == ["Where is the harbour?\n\nDown the hill, left."] * 5
    assert [item.detail for item in items if isinstance(item, Broken)] == [
        "no string under 'messages'; fields: messages"
    ]


def test_a_folder_without_a_readable_file_is_not_told_of_another_ones(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.xyz").write_text("x")
    (tmp_path / "one" / "a.txt").write_text("A text that can be read.")
    sources = [SourceSettings(name=name, path=str(tmp_path / name)) for name in ("one", "two")]
    with pytest.raises(UserError) as error:
        plan_sources(CorpusSettings(sources=tuple(sources)), tmp_path)
    assert "two.xyz" in str(error.value) and "one.xyz" not in str(error.value)
