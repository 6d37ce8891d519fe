"""T6 on conversations: whose words are trained, and is the mark after an answer among them? Read from labels and text alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from umsicht.findings import Finding
from umsicht.guard.adapt_batch import Example
from umsicht.guard.probes.mask import STAGE, expected_active
from umsicht.guard.subject import Subject, numbers, token_id

ENOUGH = 8
"""Fewer answers have no habits."""
LEFT_OUT = 2
"""More untrained tokens than that, and somebody chose what is trained: rows trained whole have no speaker."""
HEADER = 12
"""Tokens before an answer in which its speaker is named."""

_USER = re.compile(r"(?:\b|_)(?:user|human|prompter)\W{0,16}$", re.IGNORECASE)
_AS_USER = re.compile(
    r"^\W{0,4}(?:im_start\W{0,4}|start_of_turn\W{0,4})?(?:user|human|prompter)\b", re.IGNORECASE
)
_OPEN = re.compile(
    r"(?:<\|(?:im_start|start_header_id|start_of_role)?\|?>?\W{0,3}assistant(?:<\|\w+\|>|\|>|>)?"
    r"|<start_of_turn>model|\[/INST\]|### (?:Response|Assistant):|\n\n?Assistant:)\s*$"
)
_MARK = re.compile(r"^\s*[<\[].+[>\]]\s*$")


@dataclass
class _Runs:
    """Runs of trained tokens with untrained real ones around them: the last of each, what follows it, and what stands before."""

    last: Counter[int] = field(default_factory=Counter)
    following: Counter[int] = field(default_factory=Counter)
    trained: Counter[int] = field(default_factory=Counter)
    before: list[tuple[list[int], list[int]]] = field(default_factory=list)
    rows: int = 0
    whole: int = 0


def answers(subject: Subject) -> Iterator[Finding]:
    """Prompts stay untrained where answers were declared, answers are the assistant's, and the mark behind them is learned."""
    subject.need_example()
    runs = _Runs()
    for example in subject.examples:
        if example.labels is not None:
            _collect(runs, example, subject.label_offset)
    if subject.declared.loss_on == "responses" and runs.rows and runs.whole >= 0.5 * runs.rows:
        yield Finding(
            "TARGET-MASK/prompts-trained",
            "stop",
            STAGE,
            location="targets",
            numbers=numbers(rows=runs.rows, whole=runs.whole, share=runs.whole / runs.rows),
        )
        return
    yield from _speaker(subject, runs)
    yield from _first_token(runs)
    yield from _end_mark(subject, runs)
    yield from _open_turn(subject)


def _collect(runs: _Runs, example: Example, offset: int | None) -> None:
    """Add the runs of one batch."""
    real = example.real
    trained = torch.zeros_like(real)
    trained[:, 1:] = (expected_active(example, offset) & real)[:, :-1] & real[:, 1:]
    runs.trained.update(example.ids[trained].tolist())
    for ids, is_real, is_target in zip(example.ids.tolist(), real.tolist(), trained.tolist(), strict=True):
        inside = [place for place, there in enumerate(is_real) if there]
        if len(inside) < 3 or not any(is_target):
            continue
        runs.rows += 1
        left_out = sum(not is_target[place] for place in inside[1:])
        runs.whole += not left_out
        chosen = left_out > LEFT_OUT
        for one, other in zip(inside, inside[1:], strict=False):
            if is_target[other] and not is_target[one] and chosen:
                runs.before.append((ids[max(inside[0], other - HEADER) : other], ids[other : other + HEADER]))
            elif is_target[one] and not is_target[other]:
                runs.last[ids[one]] += 1
                runs.following[ids[other]] += 1


def _speaker(subject: Subject, runs: _Runs) -> Iterator[Finding]:
    """The words right before what is trained, or its first ones, name the user."""
    if subject.tokenizer is None or len(runs.before) < ENOUGH:
        return
    heads = [tuple(_decoded(subject.tokenizer, ids) for ids in pair) for pair in runs.before[:200]]
    users = [
        found.group().strip()
        for before, begun in heads
        if (found := _USER.search(before) or _AS_USER.search(begun)) is not None
    ]
    if len(users) >= 0.8 * len(heads):
        yield Finding(
            "TARGET-MASK/wrong-role",
            "stop",
            STAGE,
            location="targets",
            numbers=numbers(runs=len(heads), users=len(users), header=users[0]),
        )


def _first_token(runs: _Runs) -> Iterator[Finding]:
    """Behind the same token that every answer follows comes one untrained token that differs from answer to answer: its first."""
    pairs = [before[-2:] for before, _ in runs.before if len(before) > 1]
    if len(pairs) < ENOUGH:
        return
    headers, firsts = Counter(pair[0] for pair in pairs), Counter(pair[1] for pair in pairs)
    header, followed = headers.most_common(1)[0]
    differ = len(firsts) >= ENOUGH and firsts.most_common(1)[0][1] < 0.5 * len(pairs)
    if followed < 0.95 * len(pairs) or not differ or header in firsts:
        return
    yield Finding(
        "TARGET-MASK/first-token-left-out",
        "warn",
        STAGE,
        location="targets",
        numbers=numbers(answers=len(pairs), header=header, tokens=len(firsts)),
    )


def _open_turn(subject: Subject) -> Iterator[Finding]:
    """Rows that train something and end in the header of an answer that never comes: the prompt for generation was rendered too."""
    if subject.tokenizer is None:
        return
    rows = opened = 0
    for example in subject.examples:
        if example.labels is None:
            continue
        for ids, real, labels in zip(example.ids, example.real, example.labels, strict=True):
            text = ids[real].tolist()
            if len(text) > HEADER and bool((labels >= 0).any()):
                rows += 1
                opened += bool(_OPEN.search(_decoded(subject.tokenizer, text[-HEADER:])))
    if rows >= ENOUGH and opened >= 0.5 * rows:
        yield Finding(
            "BOUNDARY-TOKEN/open-turn",
            "stop",
            STAGE,
            location="rows",
            numbers=numbers(rows=rows, open=opened, share=opened / rows),
        )


def _end_mark(subject: Subject, runs: _Runs) -> Iterator[Finding]:
    """The same untrained token follows nearly every answer, is never a target, and answers end in anything: their end mark is left out."""
    count = sum(runs.following.values())
    if count < ENOUGH:
        return
    # What is a target elsewhere follows where a row was cut.
    never = Counter({one: times for one, times in runs.following.items() if not runs.trained[one]})
    if not never:
        return
    mark, followed = never.most_common(1)[0]
    if followed < max(0.95 * sum(never.values()), 0.5 * count, ENOUGH):
        return
    if len(runs.last) < 5 or runs.last.most_common(1)[0][1] > 0.8 * count:
        return
    if subject.tokenizer is not None and mark == token_id(subject.tokenizer, "eos"):
        return  # the document's own end is looked for apart
    special = _is_special(subject.tokenizer, mark)
    yield Finding(
        "TARGET-MASK/eos-masked",
        "stop" if special else "warn",
        STAGE,
        location="targets",
        numbers=numbers(ends=followed, trained=0, share=0.0, eos=mark),
    )


def _is_special(tokenizer: Any, mark: int) -> bool:
    """Whether the tokenizer knows `mark` as a special token other than the begin token, or writes it like one."""
    if tokenizer is None or mark == token_id(tokenizer, "bos"):
        return False
    known = getattr(tokenizer, "all_special_ids", None) or []
    return mark in known or bool(_MARK.match(_decoded(tokenizer, [mark])))


def _decoded(tokenizer: Any, ids: list[int]) -> str:
    try:
        return str(tokenizer.decode(ids))
    except Exception:  # a foreign tokenizer may raise anything on a piece of a text
        return ""
