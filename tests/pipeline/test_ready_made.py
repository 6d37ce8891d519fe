"""Token files made elsewhere, with the recipe's tokenizer, can be what a run trains on."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from umsicht.findings import UserError
from umsicht.pipeline.run import prepare
from umsicht.pipeline.training import Material, identity
from umsicht.pipeline.walk import Walk
from umsicht.recipe import recipe_from_text
from umsicht.record.project import Project

RECIPE = """
name: ready
preset: tiny
corpus:
  sources: [{name: texts, kind: files, path: texts, domain: prose, language: en, licence: public-domain}]
  validation: {min_bytes: 4000, largest_share: 0.3}
tokenizer: {vocab_size: 300, sample_bytes: 100000}
evaluate: {baselines: {context_bytes: 1000, ngram_tokens: 10000}}
"""
SYLLABLES = ("fo", "ri", "un", "hil", "sev", "wal", "the", "of", "no", "wie", "en", "mai")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project folder with forty small documents."""
    made = tmp_path_factory.mktemp("ready")
    (made / "texts").mkdir()
    for number in range(40):
        dice = random.Random(number)
        words = ["".join(dice.choices(SYLLABLES, k=3)) for _ in range(90)]
        lines = [" ".join(words[start : start + 15]) + "." for start in range(0, 90, 15)]
        (made / "texts" / f"{number:02d}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return made


def material(folder: Path, *overrides: str) -> Material:
    """The data half of the walk."""
    return prepare(
        Walk(recipe_from_text(RECIPE, "ready", overrides), Project(folder / "project"), root=folder)
    )


def test_a_run_trains_on_the_named_file_and_its_content_is_part_of_its_identity(folder: Path) -> None:
    own = material(folder)
    ids = [*own.tokenizer.encode("the seven hills " * 300), own.tokenizer.eos_id]
    np.asarray(ids, dtype=np.uint16).tofile(folder / "mine.bin")
    ready = material(folder, "tokens.ready_made=[mine.bin]")
    assert ready.data.train.n_tokens == len(ids)
    assert set(ready.source(4).batch(0).inputs.flatten().tolist()) <= set(ids)
    assert ready.data.val.n_tokens == own.data.val.n_tokens
    first = identity(ready)
    assert first != identity(own)
    np.asarray(ids[1:], dtype=np.uint16).tofile(folder / "mine.bin")
    assert identity(material(folder, "tokens.ready_made=[mine.bin]")) != first


def test_a_file_of_another_vocabulary_is_refused_by_name(folder: Path) -> None:
    np.full(2000, 50_000, dtype=np.uint16).tofile(folder / "foreign.bin")
    with pytest.raises(UserError, match=r"foreign\.bin"):
        _ = material(folder, "tokens.ready_made=[foreign.bin]").data
