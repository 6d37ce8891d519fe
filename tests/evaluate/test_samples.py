"""Samples: the same prompt, seed and temperature give the same text, and a changed prompt set does not pass unseen."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
import torch

from umsicht.evaluate import promptset, reading
from umsicht.evaluate.samples import changed_protocol, draw, grid, looping, summary
from umsicht.findings import UserError
from umsicht.model import Transformer
from umsicht.recipe.evaluate import SampleSettings
from umsicht.record.run import Run
from umsicht.tokenizer import Tokenizer

SETTINGS = SampleSettings(seeds=(0, 1), temperatures=(0.0, 0.9), max_new_tokens=6)


def rows_of(
    model: Transformer, tokenizer: Tokenizer, settings: SampleSettings = SETTINGS, step: int = 3
) -> list:
    prompts = promptset.load().only({"de"})
    return list(draw(model, tokenizer, prompts, settings, step=step, tokens=10))


def test_built_in_prompts_cover_the_starter_languages() -> None:
    prompts = promptset.load()
    assert {p.language for p in prompts.prompts} >= {"en", "de", "fr", "es", "tr", "code"}
    assert not any(p.text != p.text.rstrip() for p in prompts.prompts), (
        "a trailing space is a trap of its own"
    )
    assert {p.language for p in prompts.only({"fr", "tr"}).prompts} == {"fr", "tr"}
    assert {p.language for p in prompts.only({"xx"}).prompts} == {"en"}


def test_a_corpus_of_programs_is_asked_for_code_whatever_it_calls_the_language() -> None:
    for slices in (
        ["code.python", "encyclopedia.de"],
        ["code.other", "encyclopedia.de"],
        ["reference.python", "x.de"],
    ):
        chosen = promptset.for_corpus(SETTINGS, slices)
        assert {p.language for p in chosen.prompts} == {"code", "de"}
    named = promptset.for_corpus(SampleSettings(languages=("rust",)), ["encyclopedia.de"])
    assert {p.language for p in named.prompts} == {"code"}


def test_drawing_is_repeatable_and_leaves_the_model_as_it_was(
    model: Transformer, tokenizer: Tokenizer
) -> None:
    model.train()
    state = torch.random.get_rng_state()
    first, second = rows_of(model, tokenizer), rows_of(model, tokenizer)
    assert first == second
    assert model.training
    assert torch.equal(state, torch.random.get_rng_state())
    assert len(first) == 3 * (1 + 2)
    assert len({row["id"] for row in first}) == len(first)
    texts = {(row["prompt_id"], row["seed"]): row["text"] for row in first if row["temperature"] > 0}
    assert len(set(texts.values())) > 3


def test_greedy_is_drawn_once_whatever_the_seeds() -> None:
    assert [(s.temperature, s.seed) for s in grid(SETTINGS)] == [(0.0, 0), (0.9, 0), (0.9, 1)]


def test_a_changed_prompt_or_temperature_is_flagged(model: Transformer, tokenizer: Tokenizer) -> None:
    before = rows_of(model, tokenizer)
    after = rows_of(model, tokenizer, SETTINGS.model_copy(update={"temperatures": (0.0, 0.5)}), step=5)
    (finding,) = changed_protocol(before, after)
    assert finding.id == "SAMPLE/prompts-changed"
    assert finding.numbers["step"] == 5
    assert changed_protocol(before, rows_of(model, tokenizer, step=5)) == []


def test_loops_under_sampling_are_a_finding(model: Transformer, tokenizer: Tokenizer) -> None:
    rows = rows_of(model, tokenizer)
    assert looping(rows, 3) == []
    for row in rows:
        row["loop_tokens"] = 12 if row["temperature"] > 0 else 0
    (finding,) = looping(rows, 3)
    assert finding.numbers["share"] == 1.0
    assert summary(rows)["samples/looping"] == pytest.approx(6 / 9)


@pytest.mark.parametrize(
    "content",
    [
        b"not json",
        b"{}",
        b'{"prompts": []}',
        b'{"prompts": [{"id": "a", "language": "en"}]}',
        b'{"prompts": [{"id": "a", "language": "en", "text": "x"}, {"id": "a", "language": "de", "text": "y"}]}',
    ],
)
def test_bad_prompt_files_are_refused_with_a_sentence(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "prompts.json"
    path.write_bytes(content)
    with pytest.raises(UserError) as refused:
        promptset.load(str(path))
    assert str(path) in refused.value.what
    with pytest.raises(UserError):
        promptset.load(str(tmp_path / "absent.json"))


def test_reading_log_counts_what_a_person_saw(
    model: Transformer, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    run = Run.create(tmp_path / "run", {"name": "r"})
    for step in (10, 20, 30, 40):
        run.add_samples(rows_of(model, tokenizer, step=step))
    assert [f.id for f in reading.reminder(run, 4)] == ["SAMPLE/unread"]
    assert reading.reminder(run, 5) == []
    batch = reading.batches(run)[1]
    shown = reading.choose(batch, 4, seed=1)
    assert shown == reading.choose(batch, 4, seed=1)
    assert [row["id"] for row in shown] != [row["id"] for row in batch.rows[:4]]
    reading.note(run, 20, [str(row["id"]) for row in shown], "fluent, but about nothing")
    batch = reading.batches(run)[1]
    assert batch.is_read
    assert batch.unread == 5
    (finding,) = reading.reminder(run, 2)
    assert finding.numbers == {"evaluations": 2, "step": 30}
    assert orjson.loads(reading.log_path(run).read_bytes())["note"] == "fluent, but about nothing"
