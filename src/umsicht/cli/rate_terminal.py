"""Rating in the terminal, one item after the other."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from umsicht.cli.output import console
from umsicht.ratings import Item, Round
from umsicht.words import t


def rate_in_terminal(one: Round, rater: str, items: Sequence[Item]) -> int:
    """From the first item without an answer to the last, or until the rater has had enough."""
    done = one.answers(rater)
    position = next((n for n, item in enumerate(items) if item.id not in done), len(items))
    while position < len(items):
        item = items[position]
        began = time.monotonic()
        _show(one, item, t("ratings.do.head", rater=rater, number=position + 1, total=len(items)))
        answer = _ask_pair() if one.kind == "pairwise" else _ask_levels(one)
        if answer == "q":
            print(t("ratings.do.stopped", rater=rater, done=len(one.answers(rater)), total=len(items)))
            return 0
        if answer == "u":
            position = max(0, position - 1)
            continue
        one.answer(rater, item.id, answer, seconds=time.monotonic() - began)
        position += 1
    print(t("ratings.do.done", rater=rater, total=len(items)))
    return 0


def _show(one: Round, item: Item, heading: str) -> None:
    from rich.text import Text

    out = console()
    out.print(Text(f"\n{heading}", "bold"))
    parts = [("ratings.do.prompt", item.prompt)]
    if one.kind == "pairwise":
        parts += [("ratings.do.left", item.left), ("ratings.do.right", item.right)]
    else:
        parts += [("ratings.do.text", item.left)]
    for label, text in parts:
        out.print(Text.assemble((f"\n[{t(label)}] ", "bold cyan"), text))


def _ask_pair() -> str:
    keys = {"1": "left", "a": "left", "2": "tie", "3": "right", "b": "right", "s": "skip", "u": "u", "q": "q"}
    while True:
        answer = keys.get(input("\n" + t("ratings.do.ask")).strip().lower())
        if answer:
            return answer
        print(t("ratings.do.again"))


def _ask_levels(one: Round) -> Any:
    answers: dict[str, str] = {}
    for c in one.sheet.criteria:
        while True:
            text = (
                input("\n" + t("ratings.do.ask_level", question=c.question, low=c.low, high=c.high))
                .strip()
                .lower()
            )
            if text in ("q", "u"):
                return text
            if text in ("1", "2", "3", "4", "5", "s"):
                answers[c.id] = "skip" if text == "s" else text
                break
            print(t("ratings.do.again"))
    return answers
