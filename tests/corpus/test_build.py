"""The corpus stage from files to artifact: what goes in comes out, once, on one side of the split, or is listed with a reason."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_texts import sentences

from umsicht.corpus import CorpusInputs, build, documents
from umsicht.corpus.count import exact
from umsicht.corpus.document import rows
from umsicht.findings import UserError
from umsicht.recipe.corpus import CorpusSettings
from umsicht.record import Artifact, Store


def make(tmp_path: Path, sources: list[dict[str, object]], **settings: object) -> Artifact:
    corpus = CorpusSettings.model_validate({"sources": sources, **settings})
    return build(corpus, CorpusInputs(Store(tmp_path / "artifacts"), root=tmp_path))


def test_every_document_comes_out_once(tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    texts = sentences(60)
    (folder / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts[:20]))
    with gzip.open(folder / "b.jsonl.gz", "wt") as file:
        file.writelines(json.dumps({"text": text}) + "\n" for text in texts[20:40])
    pq.write_table(pa.table({"text": texts[40:50]}), folder / "c.parquet")
    for number, text in enumerate(texts[50:]):
        (folder / f"{number}.md").write_text(text)
    (folder / "copy.txt").write_text(texts[3])
    artifact = make(tmp_path, [{"name": "hills", "path": "texts", "language": "en", "licence": "CC0-1.0"}])
    train = [document.text for document in documents(artifact, "train")]
    val = [document.text for document in documents(artifact, "val")]
    dropped = list(rows(artifact, "dropped"))
    assert sorted(train + val) == sorted(texts)
    assert not set(train) & set(val)
    assert val, "ten per cent of a small slice is set aside"
    assert [(row["stage"], row["reason"], row["text"]) for row in dropped] == [
        ("exact", "duplicate", texts[3])
    ]
    funnel = {row["stage"]: row["documents"] for row in artifact.report["sources"]["hills"]["stages"]}
    assert [funnel[stage] for stage in ("read", "normalise", "filter")] == [61, 61, 61]
    assert [funnel[stage] for stage in ("exact", "near", "lines", "paragraphs", "protect")] == [60] * 5
    assert funnel["train"] == len(train)


def test_same_recipe_same_bytes_and_no_second_run(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n\n".join(sentences(30)))
    first = make(tmp_path / "one", [{"name": "s", "path": str(tmp_path / "a.txt")}])
    second = make(tmp_path / "two", [{"name": "s", "path": str(tmp_path / "a.txt")}])
    assert first.id == second.id
    files = sorted(path.relative_to(first.path) for path in first.path.rglob("*") if path.is_file())
    for file in files:
        if file.name != "manifest.json":
            assert (first.path / file).read_bytes() == (second.path / file).read_bytes()
    stamp = (first.path / "report.json").stat().st_mtime_ns
    make(tmp_path / "one", [{"name": "s", "path": str(tmp_path / "a.txt")}])
    assert (first.path / "report.json").stat().st_mtime_ns == stamp


def test_partition_size_does_not_change_the_split(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in sentences(400)))
    chosen = []
    for name, size in (("small", 10_000), ("large", 10_000_000)):
        artifact = make(
            tmp_path / name, [{"name": "s", "path": str(tmp_path / "a.jsonl")}], partition_bytes=size
        )
        chosen.append(sorted(document.id for document in documents(artifact, "val")))
    assert chosen[0] and chosen[0] == chosen[1]


def test_broken_members_are_listed_and_do_not_stop(tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    good = sentences(3)
    (folder / "a.jsonl").write_text(
        "\n".join([json.dumps({"text": good[0]}), "{torn", json.dumps({"body": "no text"}), "7"])
    )
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(json.dumps({"text": good[1]}).encode() * 3)[:-20])
    (folder / "c.txt").write_bytes(b"\xff\xfe\x00\xd8")
    (folder / "d.txt").write_text(good[2])
    (folder / "e.jpg").write_bytes(b"\x00")
    artifact = make(tmp_path, [{"name": "s", "path": "texts"}])
    texts = [document.text for split in ("train", "val") for document in documents(artifact, split)]
    assert good[0] in texts and good[2] in texts
    broken = artifact.report["broken"]["s"]
    assert broken == {"invalid-json": 1, "no-text": 2, "undecodable": 1, "unreadable": 1}
    listed = {row["reason"] for row in rows(artifact, "dropped") if row["stage"] == "read"}
    assert listed == set(broken)
    found = {finding["id"]: finding["grade"] for finding in artifact.report["findings"]}
    assert found["CORPUS/broken-members"] == "warn"
    assert found["CORPUS/unknown-licence"] == "warn"
    assert found["CORPUS/unread-files"] == "note"


@pytest.mark.parametrize(
    ("content", "what"),
    [(None, "nothing at"), ({}, "no file"), ({"a.png": b"x"}, "no file"), ({"a.txt": b""}, "no document")],
)
def test_a_source_that_yields_nothing_is_an_error(
    tmp_path: Path, content: dict[str, bytes] | None, what: str
) -> None:
    if content is not None:
        (tmp_path / "texts").mkdir()
        for name, data in content.items():
            (tmp_path / "texts" / name).write_bytes(data)
    with pytest.raises(UserError) as caught:
        make(tmp_path, [{"name": "s", "path": "texts"}])
    assert what in caught.value.what and caught.value.fix
    assert not list((tmp_path / "artifacts").rglob("manifest.json"))


def test_long_text_is_cut_at_blank_lines_and_loses_nothing(tmp_path: Path) -> None:
    paragraphs = sentences(40_000)
    (tmp_path / "a.txt").write_text("\n\n".join(paragraphs))
    artifact = make(
        tmp_path, [{"name": "s", "path": "a.txt"}], max_document_bytes=1_500_000, validation={"share": 0}
    )
    texts = [document.text for document in documents(artifact, "train")]
    assert len(texts) > 2
    assert "\n\n".join(texts) == "\n\n".join(paragraphs)


def test_long_documents_of_any_reader_are_cut(tmp_path: Path) -> None:
    texts = ["\n\n".join(sentences(40, seed)) for seed in range(3)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    artifact = make(
        tmp_path, [{"name": "s", "path": "a.jsonl"}], max_document_bytes=1_000, validation={"share": 0}
    )
    pieces = [document.text for document in documents(artifact, "train")]
    assert max(len(piece) for piece in pieces) <= 1_000
    assert "\n\n".join(pieces) == "\n\n".join(texts)


def test_separator_cuts_one_file_into_documents(tmp_path: Path) -> None:
    texts = sentences(50)
    (tmp_path / "a.txt").write_text("\n<|endoftext|>\n".join(texts))
    artifact = make(
        tmp_path, [{"name": "s", "path": "a.txt", "separator": "<|endoftext|>"}], validation={"share": 0}
    )
    assert [document.text for document in documents(artifact, "train")] == texts


def test_a_line_of_a_gigabyte_does_not_fill_memory(tmp_path: Path) -> None:
    from umsicht.corpus.sources.streams import lines

    class Endless:
        def __init__(self, size: int) -> None:
            self.left = size

        def read(self, n: int) -> bytes:
            take = min(n, self.left)
            self.left -= take
            return b"a" * take if self.left else b"a" * (take - 1) + b"\n" if take else b""

    import tracemalloc

    tracemalloc.start()
    found = list(lines(Endless(1_000_000_000), 1_000_000))  # type: ignore[arg-type]  # only read() is used
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == [(0, None, 999_999_999)]
    assert peak < 20_000_000


def test_a_file_that_changes_while_read_stops_the_build(tmp_path: Path) -> None:
    from umsicht.corpus.sources import SourceInfo, Unit, read_unit

    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in sentences(5)))
    unit = Unit(SourceInfo("s", "text"), "jsonl", (str(path),), ("s:a.jsonl",), path.stat().st_size)
    reading = read_unit(unit, 1_000_000)
    next(reading)
    with path.open("a") as file:
        file.write(json.dumps({"text": "one more"}) + "\n")
    with pytest.raises(UserError, match=r"changed while|während des Lesens"):
        list(reading)


def test_an_interrupted_build_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from umsicht.corpus import read

    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in sentences(200)))
    sources = [{"name": "s", "path": "a.jsonl"}]
    whole = make(
        tmp_path / "whole", [{"name": "s", "path": str(tmp_path / "a.jsonl")}], partition_bytes=10_000
    )
    real = read.prepare
    calls: list[int] = []

    def dies_at_the_third(task: read.PrepareTask) -> dict[str, object]:
        calls.append(task.number)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(task)

    monkeypatch.setattr(read, "prepare", dies_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path, sources, partition_bytes=10_000)
    again = make(tmp_path, sources, partition_bytes=10_000)
    assert len(calls) == len(set(calls)) + 1, "only the interrupted task ran twice"
    assert [d.id for d in documents(again)] == [d.id for d in documents(whole)]
    assert not (tmp_path / "artifacts" / "work").exists()


def test_validation_that_training_knows_piece_by_piece_leaves(tmp_path: Path) -> None:
    pieces = sentences(60, seed=9)
    mosaics = [" ".join(pieces[k : k + 3]) for k in range(57)]
    (tmp_path / "a.jsonl").write_text(
        "".join(json.dumps({"text": text}) + "\n" for text in mosaics + sentences(200, 3))
    )
    off = {"near": {"enabled": False}, "paragraphs": {"enabled": False}, "lines": {"enabled": False}}
    artifact = make(
        tmp_path,
        [{"name": "s", "path": "a.jsonl", "language": "en"}],
        dedupe=off,
        validation={"min_bytes": 4_000},
    )
    gone = [row for row in rows(artifact, "dropped") if row["reason"] == "overlaps-training"]
    assert gone and {row["text"] for row in gone} <= set(mosaics)
    val = [document.text for document in documents(artifact, "val")]
    assert val and not set(val) & set(mosaics)
    (counts,) = artifact.report["slices"].values()
    assert counts["val"] == {"documents": len(val), "bytes": sum(len(text) for text in val)}


def test_lines_that_come_back_are_shown_and_named(tmp_path: Path) -> None:
    """Forty sentences, each in ten of two hundred documents: too few to be removed as boilerplate, too many to be overlooked."""
    returning = sentences(40, seed=5)
    own = sentences(800, seed=6)
    with (tmp_path / "a.jsonl").open("w") as file:
        for k in range(200):
            lines = own[4 * k : 4 * k + 4] + returning[2 * (k // 10) : 2 * (k // 10) + 2]
            file.write(json.dumps({"text": "\n".join(lines)}) + "\n")
    made = make(
        tmp_path,
        [{"name": "s", "path": str(tmp_path / "a.jsonl"), "language": "en", "licence": "CC0-1.0"}],
        dedupe={"near": {"enabled": False}, "paragraphs": {"enabled": False}},
    )
    found = made.report["top_lines"]["s"]
    assert found["lines"] >= 20 and found["examples"][0]["line"] in returning
    assert "CORPUS/repeated-lines" in {finding["id"] for finding in made.report["findings"]}


def test_exact_counts_are_kept_by_document(tmp_path: Path) -> None:
    encoded: list[str] = []

    def encode(texts: list[str]) -> list[list[int]]:
        encoded.extend(texts)
        return [list(text.encode()) for text in texts]

    texts = sentences(50)
    cache = tmp_path / "counts.npy"
    for n in (30, 50):
        (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts[:n]))
        made = make(
            tmp_path / str(n),
            [{"name": "s", "path": str(tmp_path / "a.jsonl")}],
            validation={"share": 0, "min_bytes": 0},
        )
        counted = exact(made, encode, cache)
        assert counted.tokens == {"s": sum(len(text.encode()) for text in texts[:n])}
    assert counted.documents == 50 and counted.cached == 30
    assert sorted(encoded) == sorted(texts)
