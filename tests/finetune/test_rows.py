"""Dialects of fine-tuning data: every usable row comes through, every other one is listed with its place and reason."""

from __future__ import annotations

import gzip
import json

import pytest

from umsicht.findings import UserError
from umsicht.finetune.loading import load, split
from umsicht.finetune.rows import BadRow, Conversation, Preference, Problem, parse

U = {"role": "user", "content": "Hi"}
A = {"role": "assistant", "content": "Hello"}


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"messages": [U, A]}, [U, A]),
        (
            {
                "conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}],
                "system": "Be.",
            },
            [{"role": "system", "content": "Be."}, U, A],
        ),
        ({"instruction": "Hi", "input": "", "output": "Hello"}, [U, A]),
        (
            {"instruction": "Hi", "context": "now", "response": "Hello"},
            [{"role": "user", "content": "Hi\n\nnow"}, A],
        ),
        ({"instruction": "Hi", "output": "Hello", "history": [["Hi", "Hello"]]}, [U, A, U, A]),
    ],
)
def test_conversations_of_every_dialect(row, expected):
    assert parse(row, "auto", "x") == Conversation("x", tuple(expected))


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "Hi", "chosen": "Hello", "rejected": "No"},
        {"prompt": [U], "chosen": [A], "rejected": [{"role": "assistant", "content": "No"}]},
        {"chosen": [U, A], "rejected": [U, {"role": "assistant", "content": "No"}]},
        {
            "conversations": [{"from": "human", "value": "Hi"}],
            "chosen": {"from": "gpt", "value": "Hello"},
            "rejected": {"from": "gpt", "value": "No"},
        },
    ],
)
def test_preferences_of_every_dialect(row):
    assert parse(row, "auto", "x") == Preference("x", (U,), "Hello", "No")


def test_problems():
    assert parse({"question": "Hi", "answer": 4}, "auto", "x") == Problem("x", (U,), "4")


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ([1], "not_an_object"),
        ({"text": "x"}, "unknown_keys"),
        ({"messages": []}, "no_messages"),
        ({"messages": [U]}, "no_answer_last"),
        ({"messages": [U, U, A]}, "turns_out_of_order"),
        ({"messages": [A, U, A]}, "turns_out_of_order"),
        ({"messages": [{"role": "robot", "content": "x"}, A]}, "unknown_role"),
        ({"messages": [U, {"role": "assistant", "content": " "}]}, "empty_text"),
        ({"messages": [U, {"role": "assistant", "content": None}]}, "not_text"),
        ({"messages": [U, {"role": "assistant"}]}, "missing_key"),
        ({"prompt": "Hi", "chosen": "A", "rejected": "A"}, "answers_equal"),
        ({"chosen": "A", "rejected": "B"}, "no_prompt"),
        ({"chosen": [U, A], "rejected": [{"role": "user", "content": "Yo"}, A]}, "prompts_differ"),
        ({"question": "Hi", "answer": ""}, "empty_text"),
    ],
)
def test_unusable_rows_say_why(row, reason):
    with pytest.raises(BadRow) as caught:
        parse(row, "auto", "x")
    assert caught.value.reason == reason


def test_bad_rows_are_listed_by_line(tmp_path):
    good = [{"messages": [{"role": "user", "content": str(i)}, A]} for i in range(8)]
    lines = [json.dumps(row) for row in good]
    lines[2:2] = ["{broken", json.dumps({"messages": [U]}), "", json.dumps(good[0])]
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    found = load([path])
    assert [row.messages[0]["content"] for row in found.rows] == [str(i) for i in range(8)]
    assert [entry.location for entry in found.refused] == [
        "rows.jsonl.gz:3",
        "rows.jsonl.gz:4",
        "rows.jsonl.gz:6",
    ]
    (finding,) = found.findings(limit=0.05)
    assert (finding.grade, finding.numbers["refused"], finding.numbers["rows"]) == ("stop", 3, 11)
    assert found.findings(limit=0.5)[0].grade == "warn"
    assert load([path], kind=Preference).rows == []


def test_json_arrays_and_unreadable_files(tmp_path):
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([{"messages": [U, A]}]))
    assert len(load([path]).rows) == 1
    for content, name in ((b"", "empty.jsonl"), (b"\xff\xfe\xfa", "bytes.jsonl"), (b"[1,", "torn.json")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError) as caught:
            load([tmp_path / name])
        assert name in caught.value.what
    with pytest.raises(UserError, match="absent"):
        load([tmp_path / "absent.jsonl"])


def test_equal_prompts_stay_on_one_side():
    rows = [Preference(f"{i}", ({"role": "user", "content": str(i // 2)},), "a", "b") for i in range(200)]
    kept, held = split(rows, 0.2, seed=0)
    prompts = [{row.prompt[0]["content"] for row in side} for side in (kept, held)]
    assert not prompts[0] & prompts[1]
    assert len(kept) + len(held) == 200 and 20 < len(held) < 70
    assert split(rows, 0.2, seed=0) == (kept, held) != split(rows, 0.2, seed=1)
    one, other = split(rows[:4], 0.001, seed=0)
    assert one and other
    with pytest.raises(UserError):
        split(rows[:2], 0.2, seed=0)
