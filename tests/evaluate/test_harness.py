"""lm-evaluation-harness on the live model: local rows, no network, the same answers as our own arithmetic."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from umsicht.evaluate import tasks
from umsicht.evaluate.harness_model import Asked
from umsicht.evaluate.harness_tasks import KNOWN, write
from umsicht.findings import UserError
from umsicht.model import Transformer
from umsicht.score import document_nats, of_transformer
from umsicht.tokenizer import Tokenizer

ROWS = [
    {
        "query": "Question: What does a dictionary hold?",
        "choices": ["keys", "only numbers", "a lake"],
        "gold": 0,
    },
    {"query": "Question: Which statement ends a function?", "choices": ["import", "return"], "gold": 1},
    {"query": "Question: What is a module?", "choices": ["a file", "a river", "a colour"], "gold": 0},
]


def rows_file(folder: Path, rows: list[dict], name: str = "rows.jsonl") -> Path:
    file = folder / name
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.fixture
def asked(model: Transformer, tokenizer: Tokenizer) -> Asked:
    return Asked(model.eval(), tokenizer, model.config.seq_len, torch.device("cpu"))


def test_a_continuation_costs_what_it_costs_as_part_of_its_text(asked, model, tokenizer):
    context, continuation = "The value of the name", " is an object"
    ids = tokenizer.encode(context + continuation)
    (nats,) = document_nats(of_transformer(model), [np.array(ids)], prefix=tokenizer.eos_id, window=64)
    tail = len(ids) - len(tokenizer.encode(context))
    ((value, _),) = asked.loglikelihood([(context, continuation)])
    assert value == pytest.approx(-nats[-tail:].sum(), abs=1e-5)
    ((moved, _),) = asked.loglikelihood([("The value of the name ", "is an object")])
    assert moved == value, "a space at the end of a context belongs to what follows"


def test_the_answer_of_greedy_decoding_is_called_greedy(asked):
    ids = asked.tokenizer.encode("The value")
    with torch.no_grad():
        logits = asked.model(torch.tensor([[asked.tokenizer.eos_id, *ids]]))[0, -1]
    best = int(logits[: asked.tokenizer.n_tokens].argmax())
    ((_, greedy),) = asked._score([([asked.tokenizer.eos_id, *ids], [best])])
    assert greedy
    ((_, greedy),) = asked.loglikelihood([("The value", " zzzqq")])
    assert not greedy


def test_text_ends_before_the_first_stop(asked):
    whole = asked.until("def f", {"until": [], "max_gen_toks": 12})
    stop = whole[3:5]
    assert asked.until("def f", {"until": [stop], "max_gen_toks": 12}) == whole[: whole.index(stop)]


@pytest.mark.parametrize(
    ("task", "plain", "expected"),
    [
        (
            "piqa",
            {"query": "Question: go\n", "choices": ["a", "b"], "gold": 1},
            {"goal": "go", "sol2": "b", "label": 1},
        ),
        (
            "copa",
            {"query": "It rained, therefore", "choices": ["a", "b"], "gold": 0},
            {"premise": "It rained.", "question": "effect", "choice1": "a", "label": 0},
        ),
        (
            "winogrande",
            {"context_options": ["So the red cat", "So the blue cat"], "continuation": "slept.", "gold": 1},
            {"sentence": "So the _ slept.", "option1": "red cat", "option2": "blue cat", "answer": "2"},
        ),
        (
            "boolq",
            {"query": "Passage: P.\nQuestion: is it?\nAnswer:", "choices": ["no", "yes"], "gold": 1},
            {"passage": "P.", "question": "is it", "label": 1},
        ),
        (
            "lambada_openai",
            {"context": "I care about", "continuation": "signs"},
            {"text": "I care about signs"},
        ),
        (
            "arc_easy",
            {"query": "Question: why?", "choices": ["x", "y"], "gold": 1},
            {"question": "why?", "answerKey": "B", "choices": {"text": ["x", "y"], "label": ["A", "B"]}},
        ),
    ],
)
def test_plain_rows_become_the_columns_of_the_definition(task, plain, expected):
    made = KNOWN[task].converted(plain)
    assert {name: made[name] for name in expected} == expected


def test_a_row_of_another_form_is_named(tmp_path):
    pytest.importorskip("lm_eval", reason="the extra [eval] is not installed")
    with pytest.raises(UserError) as caught:
        write("arc_easy", rows_file(tmp_path, [*ROWS, {"text": "no question"}]), tmp_path)
    assert caught.value.where.startswith(f"{tmp_path / 'rows.jsonl'}:4")
    with pytest.raises(UserError, match="nonsense"):
        write("nonsense", tmp_path / "rows.jsonl", tmp_path)


def test_tasks_run_offline_and_agree_with_our_own_figures(model, tokenizer, tmp_path):
    pytest.importorskip("lm_eval", reason="the extra [eval] is not installed")
    from umsicht.evaluate.harness import evaluate

    file = rows_file(tmp_path, ROWS * 4)
    texts = [{"text": "A mapping object maps values."}, {"text": "def read(path):\n    return path\n" * 12}]
    whole, rolled = evaluate(
        model.eval(),
        tokenizer,
        {"arc_easy": file, "bits_per_byte": rows_file(tmp_path, texts, "texts.jsonl")},
    )
    plain = [{**row, "query": row["query"] + "\nAnswer:"} for row in ROWS * 4]
    own = tasks.evaluate(
        of_transformer(model),
        tokenizer,
        "own",
        tasks.load(rows_file(tmp_path, plain, "own.jsonl")),
        window=64,
    )
    assert whole.scores == tuple(map(float, own.right)) and whole.metrics["acc"] == own.accuracy
    assert whole.errors["acc"] == pytest.approx(own.standard_error)
    assert whole.rows == whole.of == 12 and not whole.is_partial and "every context" in whole.prefix
    total = sum(Asked(model, tokenizer, 64, torch.device("cpu")).rolling([row["text"] for row in texts]))
    size = sum(len(row["text"].encode()) for row in texts)
    assert rolled.metrics["bits_per_byte"] == pytest.approx(-total / math.log(2) / size)
    (nats,) = document_nats(
        of_transformer(model),
        [np.array(tokenizer.encode(texts[0]["text"]))],
        prefix=tokenizer.eos_id,
        window=64,
    )
    assert Asked(model, tokenizer, 64, torch.device("cpu")).rolling([texts[0]["text"]])[0] == pytest.approx(
        -nats.sum()
    )


def test_a_limited_run_is_partial_and_changed_rows_change_the_digest(model, tokenizer, tmp_path):
    pytest.importorskip("lm_eval", reason="the extra [eval] is not installed")
    from umsicht.evaluate.harness import evaluate

    file = rows_file(tmp_path, ROWS)
    (some,) = evaluate(model.eval(), tokenizer, {"arc_easy": file}, limit=2)
    assert some.is_partial and (some.rows, some.of) == (2, 3) and some.to_dict()["partial"]
    packed = tmp_path / "packed.jsonl.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    folders = [tmp_path / name for name in ("a", "b", "c")]
    for folder in folders:
        folder.mkdir()
    same = [write("arc_easy", f, folder).digest for f, folder in zip((file, packed), folders, strict=False)]
    other = write("arc_easy", rows_file(tmp_path, ROWS[:2], "less.jsonl"), folders[2]).digest
    assert same[0] == same[1] == some.digest != other
