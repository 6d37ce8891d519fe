"""Rows of a task are judged beside its figure: what form, order or the question itself gives away is said."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from umsicht.evaluate import task_rows
from umsicht.evaluate.tasks import Row, TaskResult

COLOURS = ("red", "blue", "grey", "pink")


class Letters:
    """A token a character."""

    eos_id = 0

    def encode(self, text: str) -> list[int]:
        return [ord(letter) for letter in text]


def rows(change: Callable[[Row, int], Row] = lambda row, n: row) -> list[Row]:
    dice = random.Random(1)
    out = []
    for number in range(60):
        choices = tuple(f" {colour}{' indeed' * dice.randrange(3)}" for colour in COLOURS)
        row = Row((f"Question {number}: the colour is",) * 4, choices, dice.randrange(4))
        out.append(change(row, number))
    return out


def named(asked: list[Row], accuracy: float = 0.3, window: int = 200) -> list[str]:
    result = TaskResult("colours", "", len(asked), len(asked), accuracy, 0.05, accuracy, 0.25, "", ())
    return [
        f.id.removeprefix("EVAL-VALIDITY/task-") for f in task_rows.judge(result, asked, Letters(), window)
    ]


def with_gold(row: Row, text: str) -> Row:
    choices = list(row.choices)
    choices[row.gold] = text
    return Row(row.contexts, tuple(choices), row.gold)


def test_plain_rows_are_quiet() -> None:
    assert named(rows()) == []
    assert named(rows()[:19], accuracy=0.0) == []


def test_pairs_of_sentences_whose_first_is_always_right_are_quiet() -> None:
    pairs = [
        Row(
            ("", ""),
            (f"Cats {n} {'sleep' if n % 2 else 'sleeps'}.", f"Cats {n} {'sleeps' if n % 2 else 'sleep'}."),
            0,
        )
        for n in range(60)
    ]
    assert named(pairs, accuracy=0.6) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda row, n: Row(row.contexts, (*row.choices[:3], row.choices[0]), row.gold % 3), "doubled"),
        (lambda row, n: Row(("Again the colour is",) * 4, row.choices, row.gold) if n % 9 == 0 else row, ""),
        (
            lambda row, n: with_gold(row, row.choices[row.gold] + " and surely so, as all of us know"),
            "by-form",
        ),
        (
            lambda row, n: Row(
                (f"It is{row.choices[row.gold]} end. {row.contexts[0]}",) * 4, row.choices, row.gold
            ),
            "answer-shown",
        ),
    ],
)
def test_rows_that_give_something_away_are_named(change: Callable[[Row, int], Row], said: str) -> None:
    found = named(rows(change))
    assert (said in found) if said else found == []


def test_rows_asked_twice_are_named() -> None:
    asked = rows()
    assert named([*asked, *asked[:6]]) == ["doubled"]


def test_questions_longer_than_the_context_are_named() -> None:
    assert named(rows(), window=30) == ["cut"]


def test_worse_than_guessing_is_named() -> None:
    assert named(rows(), accuracy=0.2) == []
    assert named(rows(), accuracy=0.0) == ["below-chance"]
