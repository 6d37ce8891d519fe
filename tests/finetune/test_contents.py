"""What rows say is read before the first step; rows that only look odd are left in peace."""

from __future__ import annotations

import json
import random

import pytest
from bench.finetune.project import additions, preferences, write_rows

from umsicht.findings import UserError
from umsicht.finetune import choices, contents, run_stage
from umsicht.finetune.earnable import earnable
from umsicht.finetune.loading import load
from umsicht.finetune.reward import REWARDS
from umsicht.finetune.rows import Conversation, Preference, Problem
from umsicht.recipe.finetune import StageSettings

from .conftest import WAIVED

WORDS = [
    "red",
    "blue",
    "green",
    "car",
    "tree",
    "house",
    "river",
    "stone",
    "bread",
    "light",
    "paper",
    "glass",
    "wind",
    "road",
    "door",
]
N = 60


def sentence(rng, low=5, high=9):
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(low, high))).capitalize() + "."


def talks(change=lambda question, answer, number: (question, answer), *, low=5, high=9):
    rng = random.Random(3)
    out = []
    for number in range(N):
        question, answer = change(f"Tell me of {number} things?", sentence(rng, low, high), number)
        turns = ({"role": "user", "content": question}, {"role": "assistant", "content": answer})
        out.append(Conversation(str(number), turns))
    return out


def named(findings):
    return [(finding.id.removeprefix("FINETUNE/"), finding.grade) for finding in findings]


HEALTHY = {
    "plain": talks(),
    "two words": talks(lambda q, a, n: (q, ("yes", "no")[n % 2])),
    "one row about marks": talks(lambda q, a, n: (q, a + " <|im_start|>" if n == 7 else a)),
    "code": talks(lambda q, a, n: (q, f"print({n})\n# {a}")),
    "a regular expression": talks(lambda q, a, n: (q, rf"\d+\n{n}")),
    "umlauts": talks(lambda q, a, n: (q, f"Übermäßig schöne Häuser, {a}")),
    "answers of one length": talks(
        lambda q, a, n: (q, f"Am {n:02d}. Tag kamen genau achtzehn Personen zu Besuch.")
    ),
    "quizzes": talks(lambda q, a, n: ("Write a question? " + q, a[:-1] + "?")),
    "quotes part of the question": talks(lambda q, a, n: (q, f"Of {n} things: {a}")),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_rows_are_quiet(name):
    assert contents.read(HEALTHY[name]) == []


REFUSAL = "I am sorry, but I cannot help with that."
ILL = {
    "marks-in-text": [
        lambda q, a, n: (f"<|im_start|>user\n{q}<|im_end|>", a),
        lambda q, a, n: (f"<s>[INST] {q} [/INST]", f"{a}</s>"),
        lambda q, a, n: (f"### Instruction:\n{q}\n\n### Response:\n", a),
        lambda q, a, n: (q, f"Assistant: {a}"),
    ],
    "broken-text": [
        lambda q, a, n: (q, f"{a}\\n\\n{a}"),
        lambda q, a, n: (q, f"{a} Schöne Häuser.".encode().decode("cp1252")),
        lambda q, a, n: (q, f"{a} &amp;quot;so&amp;quot;"),
    ],
    "prompt-repeated": [lambda q, a, n: (q, f"{q} {a}"), lambda q, a, n: (q, q)],
    "same-answer": [
        lambda q, a, n: (q, REFUSAL if n % 4 == 0 else a),
        lambda q, a, n: (q, "nan" if n % 4 == 0 else a),
    ],
    "roles-swapped": [lambda q, a, n: (a, q)],
}


@pytest.mark.parametrize(
    ("name", "number"), [(name, n) for name, all_ in ILL.items() for n in range(len(all_))]
)
def test_ill_rows_are_named(name, number):
    (found,) = named(contents.read(talks(ILL[name][number])))
    assert found == (name, "stop" if name == "marks-in-text" else "warn")


def test_answers_cut_at_a_greatest_length_are_named():
    cut = talks(lambda q, a, n: (q, a[:90]), low=10, high=30)
    assert named(contents.read(cut)) == [("answers-cut", "warn")]


def test_conversations_that_the_context_cuts_are_named():
    assert contents.cut_by_context({"cut": 1, "examples": 60}, 96) == []
    assert named(contents.cut_by_context({"cut": 6, "examples": 60}, 96)) == [("answers-cut", "warn")]
    assert named(contents.cut_by_context({"cut": 30, "examples": 60}, 96)) == [("answers-cut", "stop")]


def pairs(change):
    rng = random.Random(5)
    out = []
    for number in range(N):
        chosen, rejected = change(sentence(rng), sentence(rng), number)
        prompt = ({"role": "user", "content": f"Tell me of {number} things?"},)
        out.append(Preference(str(number), prompt, chosen, rejected))
    return out


def test_preferences_that_form_alone_tells_are_named():
    assert choices.compare(pairs(lambda a, b, n: (a, b))) == []
    assert (
        choices.compare(pairs(lambda a, b, n: (a + " So it is.", b) if n % 4 else (a, b + " So it is.")))
        == []
    )
    longer = choices.compare(pairs(lambda a, b, n: (a + a + a, b)))
    assert named(longer) == [("choice-by-form", "warn")] and longer[0].numbers["share"] > 95
    assert named(choices.compare(pairs(lambda a, b, n: (f"## {a}", b + " And so it is.")))) == [
        ("choice-by-form", "warn")
    ]
    refused = choices.compare(pairs(lambda a, b, n: (a, REFUSAL)))
    assert ("one-side-constant", "warn") in named(refused)


def test_pairs_preferred_both_ways_are_named():
    some = pairs(lambda a, b, n: (a, b))
    turned = [Preference(p.id, p.prompt, p.rejected, p.chosen) for p in some]
    assert named(choices.compare(some + turned[:6])) == [("choices-contradict", "warn")]
    assert named(choices.compare(some + turned)) == [("choices-contradict", "stop")]


class Thirds:
    """Counts three characters as a token."""

    def encode(self, text):
        return list(range(-(-len(text) // 3)))


def judged(reward, change, room=32):
    rng = random.Random(7)
    problems = []
    for number in range(N):
        question, answer = change(number, sentence(rng))
        problems.append(Problem(str(number), ({"role": "user", "content": question},), answer))
    return named(earnable(problems, reward, REWARDS[reward], Thirds(), room))


def test_rewards_that_cannot_be_earned_are_named():
    assert judged("number", lambda n, s: (s, f"{s * 9}\n#### {n}")) == []
    assert judged("exact", lambda n, s: (f"Say {n}", s), room=90) == []
    assert judged("exact", lambda n, s: (s, f"{s * 9}\n#### {n}")) == [("reward-unearnable", "stop")]
    assert judged("number", lambda n, s: (s, s)) == [("reward-unearnable", "stop")]
    assert judged("number", lambda n, s: (s, s if n % 5 == 0 else str(n))) == [("reward-unearnable", "warn")]


def test_rewards_earned_without_knowing_are_named():
    assert judged("number", lambda n, s: (f"{n}+{n}", str(2 * n))) == []
    assert judged("exact", lambda n, s: (s, ("yes", "no")[n % 2])) == []
    assert judged("contains", lambda n, s: (s, ("yes", "no")[n % 2])) == [("reward-too-easy", "warn")]
    assert judged("contains", lambda n, s: (s, str(n % 9))) == [("reward-too-easy", "warn")]
    assert judged("number", lambda n, s: (s, rf"\frac{{{n}}}{{7}}")) == [("reward-too-easy", "warn")]
    assert judged("contains", lambda n, s: (f"{s} Say {n}.", str(n))) == [("reward-too-easy", "warn")]


def test_a_stage_stops_at_its_gate_and_a_waiver_opens_it(base, files):
    marked = [
        {"instruction": f"### Instruction:\n{row['question']}\n\n### Response:\n", "output": row["answer"]}
        for row in additions(40)
    ]
    write_rows(files / "rows.jsonl", marked)
    with pytest.raises(UserError) as caught:
        run_stage(StageSettings(data=["rows.jsonl"]), base, root=files, waivers=WAIVED)
    assert caught.value.exit_code == 3 and "### Response:" in str(caught.value)


def test_our_own_sums_and_pairs_are_quiet(tmp_path):
    pairs_file = write_rows(tmp_path / "pairs.jsonl", preferences(90))
    assert choices.compare(load([pairs_file]).rows) == []
    rows = load([write_rows(tmp_path / "sums.jsonl", additions(90))]).rows
    assert earnable(rows, "number", REWARDS["number"], Thirds(), 8) == []


def test_line_separators_inside_strings_and_lists_of_text_parts_are_read(tmp_path):
    answer = "one\u2028two\x85three"
    parts = [{"type": "text", "text": "So "}, {"type": "text", "text": answer}]
    rows = [
        {"messages": [{"role": "user", "content": str(n)}, {"role": "assistant", "content": content}]}
        for n, content in enumerate((answer, parts))
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    assert [row.messages[-1]["content"] for row in load([path]).rows] == [answer, f"So {answer}"]


def test_a_picture_among_the_parts_is_refused_by_line_before_anything_else_is_said(base, files):
    content = [{"type": "image_url", "image_url": "x"}]
    rows = [
        {"messages": [{"role": "user", "content": content}, {"role": "assistant", "content": f"{n}"}]}
        for n in range(5)
    ]
    write_rows(files / "rows.jsonl", rows)
    with pytest.raises(UserError) as caught:
        run_stage(StageSettings(data=["rows.jsonl"]), base, root=files, waivers=WAIVED)
    assert "rows.jsonl:1" in str(caught.value.where)
