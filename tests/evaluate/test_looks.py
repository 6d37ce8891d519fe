"""Rare facts, labels of outputs, the sampling trouble-shooter: scripted models and texts with a known answer."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from umsicht.evaluate import facts, labels
from umsicht.evaluate.troubleshoot import Request, examine
from umsicht.score import IGNORE, TokenNats
from umsicht.tokenizer import Tokenizer

NAMES = (
    "Aldora",
    "Brenwick",
    "Calmera",
    "Dornfeld",
    "Elvastan",
    "Farnholm",
    "Gorvania",
    "Hestlund",
    "Irmatown",
    "Jolbridge",
)


def lines() -> list[str]:
    found = []
    for i, name in enumerate(NAMES):
        sentence = f"the old capital number {'abcdefghij'[i]} of that land is {name}. "
        found += [sentence] * (1 if i < 5 else 40)
    return found


def test_facts_are_mined_with_how_often_they_were_seen() -> None:
    mined = facts.mine(lines())
    seen = {fact.answer: fact.seen for fact in mined}
    # the last four words before the name are the same in all ten sentences: not a fact but a guess
    assert seen == {}
    distinct = [
        text.replace("of that land is", f"of {'abcdefghij'[i % 10] * 3} is") for i, text in enumerate(lines())
    ]
    seen = {fact.answer: fact.seen for fact in facts.mine([text for text in distinct if text])}
    assert set(seen) <= set(NAMES)
    assert facts.mine(["nothing here"]) == []


def test_recall_is_told_by_bucket(tokenizer: Tokenizer) -> None:
    known = [
        facts.Fact(f"The capital of land {i} is called", name, 1 if i < 5 else 40)
        for i, name in enumerate(NAMES)
    ]
    right = {tuple(tokenizer.encode(f" {fact.answer}")): fact for fact in known if fact.seen == 40}

    def frequent_only(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        nats = torch.full(targets.shape, 3.0)
        for row in range(targets.shape[0]):
            ids = [int(i) for i in targets[row] if int(i) != IGNORE]
            for answer, fact in right.items():
                context = tokenizer.encode(fact.context)
                if tuple(ids[-len(answer) :]) == answer and ids[: len(context)] == context:
                    nats[row] = 0.2
                elif ids[: len(context)] == context:
                    nats[row] = 4.0
        return torch.where(targets == IGNORE, 0.0, nats)

    buckets = facts.ask(frequent_only, tokenizer, known)
    assert [(b.low, b.high, b.facts) for b in buckets] == [(1, 1, 5), (30, 99, 5)]
    assert buckets[1].recall == 1.0
    assert buckets[1].nats < buckets[0].nats
    assert facts.ask(frequent_only, tokenizer, known[:3]) == []


def row(language: str, written: str, promotional: bool, step: int) -> dict:
    return {
        "language": language, "written_language": written, "toned": {"promotional": promotional},
        "step": step, "text": "x" * 50, "prompt": "p",
    }  # fmt: skip


def test_a_changed_language_is_a_finding() -> None:
    rows = [row("de", "en", False, 5)] * 4 + [row("fr", "fr", False, 5)] * 6
    (finding,) = labels.judge([], rows, 5)
    assert finding.id == "SAMPLE/wrong-language"
    assert finding.numbers == {"step": 5, "outputs": 10, "foreign": 4, "language": "de"}
    assert labels.judge([], [row("de", "und", False, 5)] * 10, 5) == []


def test_a_tone_that_becomes_frequent_is_a_finding_and_chance_is_not() -> None:
    before = [row("en", "en", i < 1, 1) for i in range(20)]
    drifted = [row("en", "en", i < 12, 9) for i in range(20)]
    (finding,) = labels.judge(before, drifted, 9)
    assert finding.id == "SAMPLE/tone-drift"
    assert (finding.numbers["share"], finding.numbers["first_share"]) == (0.6, 0.05)
    assert labels.judge(before, [row("en", "en", i < 4, 9) for i in range(20)], 9) == []
    assert labels.summary(drifted)["samples/promotional"] == 0.6


def test_fisher_by_hand() -> None:
    # 3 of 3 against 0 of 3: one table of C(6, 3) = 20
    assert labels.fisher(3, 3, 0, 3) == pytest.approx(1 / 20)
    assert labels.fisher(0, 5, 3, 5) == 1.0


def test_real_outputs_are_labelled() -> None:
    if not labels.available():
        pytest.skip("the extra [corpus] is not installed: outputs are not labelled")
    base = {"prompt": "Die Stadt", "language": "de", "step": 1}
    german = " liegt an einem Fluss, und jeden Morgen gehen die Leute über die alte Brücke zum Markt."
    short, long = labels.add([{**base, "text": " ja"}, {**base, "text": german}])
    assert "written_language" not in short
    assert long["written_language"] == "de"
    assert set(long["tone"]) == set(long["toned"])
    assert labels.summary([short, long])["samples/same_language"] == 1.0


def ending(probability_nats: float) -> TokenNats:
    def nats_of(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return torch.where(targets == IGNORE, 0.0, probability_nats)

    return nats_of


GOOD = Request("The city lies on the river", max_new_tokens=40, seq_len=256)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, []),
        ({"prompt": "The city lies on "}, ["SAMPLE/trailing-space"]),
        ({"prompt": ""}, ["SAMPLE/empty-prompt"]),
        ({"prompt": "Hello <|endoftext|> you"}, ["SAMPLE/literal-special"]),
        ({"temperature": 1.6}, ["SAMPLE/too-hot"]),
        ({"temperature": 0.0}, ["SAMPLE/greedy"]),
        ({"temperature": 1.0, "top_p": 1.0}, ["SAMPLE/whole-tail"]),
        ({"max_new_tokens": 400}, ["SAMPLE/over-length"]),
        ({"is_chat": True}, ["SAMPLE/chat-on-base"]),
        ({"has_chat_training": True}, ["SAMPLE/template-missing"]),
        ({"training_has_eos": False}, ["SAMPLE/end-untrained"]),
    ],
)
def test_each_trouble_is_named_and_nothing_else(
    tokenizer: Tokenizer, change: dict, expected: list[str]
) -> None:
    tokens, found = examine(replace(GOOD, **change), tokenizer, ending(3.0))
    assert [f.id for f in found] == expected
    assert tokenizer.decode([i for i, _ in tokens]) == replace(GOOD, **change).prompt


def test_the_end_token_is_asked_for(tokenizer: Tokenizer) -> None:
    assert [f.id for f in examine(GOOD, tokenizer, ending(30.0))[1]] == ["SAMPLE/end-untrained"]
    assert [f.id for f in examine(GOOD, tokenizer, ending(float("nan")))[1]] == ["SAMPLE/not-finite"]
