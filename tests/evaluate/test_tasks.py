"""Tasks: a scorer that knows the answers gets all of them, one that guesses gets chance, and pairs are compared on equal rows."""

from __future__ import annotations

import gzip
import random
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
import torch

from umsicht.evaluate import tasks
from umsicht.findings import UserError
from umsicht.score import IGNORE, TokenNats
from umsicht.tokenizer import Tokenizer


def knows(tokenizer: Tokenizer, rows: list[tasks.Row], share: float = 1.0) -> TokenNats:
    """Gives the right choice few nats on a share of the rows and many on the others."""
    rng = random.Random(0)
    texts = {
        (*tokenizer.encode(row.contexts[row.gold]), *tokenizer.encode(row.choices[row.gold]))
        for row in rows
        if rng.random() < share
    }

    def nats_of(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        nats = torch.full(targets.shape, 2.0)
        for i in range(targets.shape[0]):
            if tuple(int(v) for v in targets[i] if int(v) != IGNORE) in texts:
                nats[i] = 0.1
        return torch.where(targets == IGNORE, 0.0, nats)

    return nats_of


def some_rows(n: int = 60) -> list[tasks.Row]:
    rng = random.Random(1)
    words = ["red", "blue", "grey", "pink"]
    return [
        tasks.Row((f"Question {i}: the colour is",) * 4, tuple(f" {w}" for w in words), rng.randrange(4))
        for i in range(n)
    ]


def test_who_knows_the_answers_gets_them(tokenizer: Tokenizer) -> None:
    rows = some_rows()
    result = tasks.evaluate(knows(tokenizer, rows), tokenizer, "colours", rows)
    assert result.accuracy == result.accuracy_per_byte == 1.0
    assert (result.chance, result.is_partial) == (0.25, False)
    half = tasks.evaluate(knows(tokenizer, rows, 0.4), tokenizer, "colours", rows, limit=40)
    assert half.is_partial
    assert 0.3 < half.accuracy < 0.8
    assert half.standard_error == pytest.approx((half.accuracy * (1 - half.accuracy) / 39) ** 0.5)


def test_pairs_are_compared_on_equal_rows_only(tokenizer: Tokenizer) -> None:
    rows = some_rows()
    good = tasks.evaluate(knows(tokenizer, rows), tokenizer, "colours", rows)
    poor = tasks.evaluate(knows(tokenizer, rows, 0.3), tokenizer, "colours", rows)
    paired = tasks.compare(good, poor)
    assert paired.only_second == 0
    assert paired.difference == pytest.approx(good.accuracy - poor.accuracy)
    assert paired.low > 0
    assert paired.p < 1e-6
    with pytest.raises(UserError):
        tasks.compare(good, replace(poor, digest="other"))


def test_mcnemar_by_hand() -> None:
    assert tasks.mcnemar(0, 5) == pytest.approx(2 / 32)
    assert tasks.mcnemar(3, 3) == 1.0
    assert tasks.mcnemar(0, 0) == 1.0


def test_the_three_forms_are_read_and_bad_lines_named(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl.gz"
    lines = [
        {"query": "A: ", "choices": ["x", "y"], "gold": 1},
        {"context_options": ["Anna", "Ben"], "continuation": "slept", "gold": 0},
        {"sentence_good": "He sleeps.", "sentence_bad": "He sleep."},
    ]
    path.write_bytes(gzip.compress(b"\n".join(orjson.dumps(line) for line in lines)))
    first, second, third = tasks.load(path)
    assert (first.contexts[0], first.choices, first.gold) == ("A:", (" x", " y"), 1)
    assert (second.contexts, second.choices[0]) == (("Anna", "Ben"), " slept")
    assert (third.choices, third.gold) == (("He sleeps.", "He sleep."), 0)
    bad = tmp_path / "bad.jsonl"
    bad.write_text(
        '{"query": "a", "choices": ["x", "y"], "gold": 0}\n{"query": "a", "choices": ["x"], "gold": 0}\n'
    )
    with pytest.raises(UserError) as refused:
        tasks.load(bad)
    assert refused.value.where.startswith(f"{bad}:2")
    with pytest.raises(UserError):
        tasks.load(tmp_path / "absent.jsonl")


@pytest.mark.parametrize(
    "name", ["eval-sets/copa", "eval-sets/piqa", "eval-sets/arc_easy", "eval-sets/winogrande", "blimp/blimp"]
)
def test_published_sets_are_read_whole(test_data: Path, name: str) -> None:
    rows = tasks.load(test_data / f"{name}.jsonl.gz")
    assert len(rows) >= 100
    assert all(len(row.choices) >= 2 for row in rows)
