"""What a task's rows can measure, asked of the rows themselves: doubled choices, answers that are shown, form that tells, cut contexts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from umsicht.evaluate.tasks import Codec, Row, TaskResult
from umsicht.findings import Finding
from umsicht.words import t

ENOUGH = 20
"""Fewer rows have no shares worth speaking of."""
TELLS = 0.8
"""A rule that reads no word and answers this share right measures nothing but form."""


def judge(result: TaskResult, rows: Sequence[Row], tokenizer: Codec, window: int) -> list[Finding]:
    """Findings about the rows that were asked and the figure that came of them; all of grade `warn`."""
    asked = list(rows[: result.rows])
    if len(asked) < ENOUGH:
        return []
    found = [*_doubled(result.task, asked), *_shown(result.task, asked), *_by_form(result, asked)]
    return [*found, *_cut(result.task, asked, tokenizer, window), *_below_chance(result)]


def _finding(name: str, task: str, numbers: dict[str, object], shown: Sequence[str] = ()) -> Finding:
    return Finding(f"EVAL-VALIDITY/{name}", "warn", "evaluation", f"task {task}", numbers, tuple(shown))


def _share(hits: int, of: int) -> dict[str, object]:
    return {"rows": hits, "of": of, "share": round(100 * hits / of, 1)}


def _doubled(task: str, rows: Sequence[Row]) -> Iterator[Finding]:
    """Two equal choices in a row (the first of them wins), or the same row several times."""
    twins = [row for row in rows if len(set(zip(row.contexts, row.choices, strict=True))) < len(row.choices)]
    again = len(rows) - len(Counter((row.contexts, row.choices) for row in rows))
    for kind, hits in (("choices", len(twins)), ("rows", again)):
        if hits >= max(2, 0.01 * len(rows)):
            shown = [f"{row.contexts[0][-60:]!r}: {list(row.choices)!r}"[:200] for row in twins[:2]]
            numbers = {**_share(hits, len(rows)), "kind": t(f"evaluate.task_rows.{kind}")}
            yield _finding("task-doubled", task, numbers, shown)


def _shown(task: str, rows: Sequence[Row]) -> Iterator[Finding]:
    """The right choice stands in the question, and no other does."""

    def is_shown(row: Row) -> bool:
        inside = [
            len(choice.strip()) >= 4 and choice.strip() in context
            for context, choice in zip(row.contexts, row.choices, strict=True)
        ]
        return inside[row.gold] and sum(inside) == 1

    hits = [row for row in rows if is_shown(row)]
    if len(hits) >= 0.5 * len(rows):
        shown = [f"{row.contexts[row.gold][-60:]!r} → {row.choices[row.gold]!r}" for row in hits[:2]]
        yield _finding("task-answer-shown", task, _share(len(hits), len(rows)), shown)


def _by_form(result: TaskResult, rows: Sequence[Row]) -> Iterator[Finding]:
    """Always the longest, or always the shortest choice: how often is it right?"""
    rules: dict[str, Callable[[Row], int]] = {
        "longest": lambda row: max(range(len(row.choices)), key=lambda i: len(row.choices[i])),
        "shortest": lambda row: min(range(len(row.choices)), key=lambda i: len(row.choices[i])),
    }
    telling = [row for row in rows if len({len(choice) for choice in row.choices}) > 1]
    if len(telling) < 0.5 * len(rows):
        return
    for rule, pick in rules.items():
        right = sum(pick(row) == row.gold for row in telling)
        if right >= max(TELLS, result.chance + 0.25) * len(telling):
            numbers = {**_share(right, len(telling)), "rule": t(f"evaluate.task_rows.{rule}")}
            yield _finding("task-by-form", result.task, numbers)


def _cut(task: str, rows: Sequence[Row], tokenizer: Codec, window: int) -> Iterator[Finding]:
    """Questions whose beginning the model's context does not hold."""
    lengths = [
        max(
            len(tokenizer.encode(context)) + len(tokenizer.encode(choice))
            for context, choice in zip(row.contexts, row.choices, strict=True)
        )
        for row in rows
    ]
    cut = [length for length in lengths if length > window]
    if len(cut) >= 0.05 * len(rows):
        numbers = {**_share(len(cut), len(rows)), "window": window, "longest": max(lengths)}
        yield _finding("task-cut", task, numbers)


def _below_chance(result: TaskResult) -> Iterator[Finding]:
    """Worse than guessing by four standard errors, per byte as well: answers and choices do not belong together."""
    error = math.sqrt(result.chance * (1 - result.chance) / result.rows)
    best = max(result.accuracy, result.accuracy_per_byte)
    if best < result.chance - 4 * error:
        numbers: dict[str, object] = {
            "accuracy": round(best, 3),
            "chance": round(result.chance, 3),
            "rows": result.rows,
        }
        yield _finding("task-below-chance", result.task, numbers)
