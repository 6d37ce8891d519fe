"""Real input, some of it broken on purpose, from file to artifact: every document is kept or listed with its reason."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from umsicht.corpus import CorpusInputs, build
from umsicht.corpus.document import rows
from umsicht.corpus.engine import Serial
from umsicht.corpus.index import save_array
from umsicht.corpus.kernels import oracle
from umsicht.corpus.kernels.spans import lines_of, spans_from
from umsicht.corpus.near import NearJob, find_near
from umsicht.corpus.near.tasks import SpanFile
from umsicht.corpus.work import Workspace
from umsicht.recipe.corpus import CorpusSettings
from umsicht.record import Artifact, Store

LANGUAGES = ("de", "en", "es", "fr", "hi", "ja", "ko", "pt", "ru", "tr", "uk", "zh", "zh-hant")


def data() -> Path:
    folder = os.environ.get("UMSICHT_TEST_DATA", "")
    if not folder:
        pytest.skip("UMSICHT_TEST_DATA is not set")
    return Path(folder)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """Archives, pages and documentation in thirteen languages as one corpus, languages found and not declared."""
    docs = [
        {
            "name": f"docs.{language}",
            "path": str(data() / "fastapi-docs" / f"{language}.jsonl.gz"),
            "max_bytes": 150_000,
            "domain": "docs",
            "licence": "MIT",
        }
        for language in LANGUAGES
    ]
    archives = [
        {"name": "archives", "path": str(data() / "warc"), "licence": "CC-BY-SA-4.0"},
        {"name": "pages", "path": str(data() / "books" / "html"), "licence": "public-domain"},
    ]
    settings = CorpusSettings.model_validate(
        {"sources": [*archives, *docs], "engine": {"executor": "serial"}}
    )
    return build(settings, CorpusInputs(Store(tmp_path_factory.mktemp("real"))))


def test_every_document_is_kept_or_listed(made: Artifact) -> None:
    read = sum(
        stage["documents"] for source in made.report["sources"].values() for stage in source["stages"][:1]
    )
    broken = sum(sum(reasons.values()) for reasons in made.report["broken"].values())
    dropped = [row for row in rows(made, "dropped") if row["reason"] != "repeated"]
    kept = sum(1 for split in ("train", "val") for _ in rows(made, split, ("id",)))
    pieces = sum("~" in row["origin"] for split in ("train", "val") for row in rows(made, split, ("origin",)))
    assert kept + len(dropped) - pieces == read + broken
    assert all(row["stage"] and row["reason"] for row in dropped)


def test_every_file_of_the_archives_is_accounted_for(made: Artifact) -> None:
    names = {
        row["origin"].partition(":")[2].partition("#")[0].partition("@")[0]
        for split in ("train", "val", "dropped")
        for row in rows(made, split, ("origin", "source"))
        if row["source"] == "archives"
    }
    unread = {name for name in made.report["unread_files"] if name.startswith(("warcio", "whirl", "SOURCE"))}
    assert names | unread >= {path.name for path in (data() / "warc").iterdir()}


def test_books_as_pages_come_through(made: Artifact) -> None:
    sizes: dict[str, int] = {}
    for split in ("train", "val", "dropped"):
        for row in rows(made, split, ("source", "language", "bytes")):
            if row["source"] == "pages":
                sizes[row["language"]] = max(row["bytes"], sizes.get(row["language"], 0))
    assert sizes["de"] > 100_000 and sizes["en"] > 600_000


@pytest.mark.parametrize("language", LANGUAGES)
def test_documentation_is_told_by_language(made: Artifact, language: str) -> None:
    found = [
        row["language"]
        for split in ("train", "val", "dropped")
        for row in rows(made, split, ("source", "language", "bytes"))
        if row["source"] == f"docs.{language}" and row["bytes"]
    ]
    assert len(found) >= 5
    assert sum(name.partition("-")[0] == language.partition("-")[0] for name in found) / len(found) >= 0.9


def test_two_translations_stay_and_what_goes_truly_repeats(tmp_path: Path) -> None:
    """Two English versions of one book share verses, not the text: both stay; of single lines only those go that reach the threshold."""
    import pyarrow as pa

    with gzip.open(data() / "genesis" / "genesis.jsonl.gz", "rt", encoding="utf-8") as file:
        books = {row["name"]: row["text"] for row in map(json.loads, file)}
    path, state = tmp_path / "books.parquet", tmp_path / "state.npy"
    pq.write_table(pa.table({"text": list(books.values())}), path)
    job = NearJob(
        "near", [SpanFile(str(path))], [len(books)], save_array(state, np.zeros(len(books), np.uint8))
    )
    assert len(find_near(job, Workspace(tmp_path, "books", "0" * 64), Serial()).drops) == 0
    _, lines = lines_of(spans_from([books["english-kjv"], books["english-web"]]))
    texts = [lines.text(i) for i in range(len(lines))]
    pq.write_table(pa.table({"text": texts}), path)
    save_array(state, np.zeros(len(texts), np.uint8))
    job = NearJob("near", [SpanFile(str(path))], [len(texts)], state, min_shingles=8)
    drops = find_near(job, Workspace(tmp_path, "lines", "1" * 64), Serial()).drops
    assert len(drops) > 20
    for drop in drops:
        a, b = (set(oracle.shingles(texts[int(drop[end])], 5)) for end in ("later", "earlier"))
        assert oracle.jaccard(a, b) >= 0.7 or oracle.containment(a, b) >= 0.8
