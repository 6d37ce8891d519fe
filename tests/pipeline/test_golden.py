"""A stage whose output changes needs a new STAGE_VERSION: otherwise artifacts made before and after would share an id.

Where this fails on purpose: raise the stage's STAGE_VERSION, run the test, and put the digest it prints beside the new version.
"""

from __future__ import annotations

import random

import pytest

from umsicht.corpus import stage as corpus_stage
from umsicht.pipeline.stages import corpus, tokenizer, tokens
from umsicht.pipeline.walk import Walk
from umsicht.recipe import recipe_from_text
from umsicht.record import Artifact, content_id
from umsicht.record.project import Project
from umsicht.tokenizer import stage as tokenizer_stage
from umsicht.tokens import stage as tokens_stage

RECIPE = """
name: golden
preset: tiny
corpus:
  sources: [{name: texts, kind: files, path: texts, domain: prose, language: en, licence: public-domain}]
  validation: {min_bytes: 200, largest_share: 0.3}
tokenizer: {vocab_size: 300, sample_bytes: 100000}
"""

WORDS = [
    "fox",
    "river",
    "Fluß",
    "été",
    "дом",
    "under",
    "hill",
    "seven",
    "walked",
    "and",
    "the",
    "of",
    "42",
    "Straße",
    "noch",
    "wieder",
    "encore",
    "maison",
    "return",
    "None",
]

GOLDEN = {
    "corpus": (9, "0aaf2b73507e2313"),
    "tokenizer": (1, "4cfb5670b44b5dcf"),
    "tokens": (1, "3d6804c1f0bbcde1"),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Artifact]:
    """The data half of the walk on forty small documents."""
    folder = tmp_path_factory.mktemp("golden")
    (folder / "texts").mkdir()
    for number in range(40):
        dice = random.Random(number)
        lines = [" ".join(dice.choice(WORDS) for _ in range(12)) + "." for _ in range(6)]
        (folder / "texts" / f"{number:02d}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    walk = Walk(recipe_from_text(RECIPE, "golden"), Project(folder / "project"), root=folder)
    text = corpus(walk)
    vocabulary = tokenizer(walk, text)
    return {"corpus": text, "tokenizer": vocabulary, "tokens": tokens(walk, text, vocabulary)}


def digest(artifact: Artifact) -> str:
    """What the stage wrote: data as read back (Parquet bytes differ between library versions), not reports with timings."""
    if artifact.kind == "corpus":
        from umsicht.corpus import documents

        rows = [
            (split, one.id, one.text, one.domain, one.language)
            for split in ("train", "val")
            for one in documents(artifact, split)
        ]
        return content_id(sorted(rows))[:16]
    files = {
        name: about["sha256"]
        for name, about in artifact.manifest["files"].items()
        if name.endswith((".npy", "tokenizer.json"))
    }
    return content_id(files)[:16]


VERSIONS = {
    "corpus": corpus_stage.STAGE_VERSION,
    "tokenizer": tokenizer_stage.STAGE_VERSION,
    "tokens": tokens_stage.STAGE_VERSION,
}


@pytest.mark.parametrize("kind", sorted(GOLDEN))
def test_a_changed_output_has_a_new_version(made: dict[str, Artifact], kind: str) -> None:
    assert (VERSIONS[kind], digest(made[kind])) == GOLDEN[kind]
