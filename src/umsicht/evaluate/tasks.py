"""Multiple-choice tasks on local files: accuracy with its standard error, and paired comparison on the same rows.

A row's answer is the choice to which the model gives the least nats; `per byte` divides by the choice's UTF-8 bytes first, so that
long choices are not punished. Rows, order and limit are part of the result: their digest names what was asked.
"""

from __future__ import annotations

import gzip
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from math import comb
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import orjson
import torch

from umsicht.findings import UserError
from umsicht.record.ids import content_id
from umsicht.score import TokenNats, document_nats
from umsicht.words import t


class Codec(Protocol):
    """What is asked of a tokenizer."""

    @property
    def eos_id(self) -> int: ...
    def encode(self, text: str) -> list[int]: ...


@dataclass(frozen=True)
class Row:
    """One question: for each choice what stands before it and the choice itself; `gold` is the right one."""

    contexts: tuple[str, ...]
    choices: tuple[str, ...]
    gold: int


@dataclass(frozen=True)
class TaskResult:
    """`accuracy` by nats, `accuracy_per_byte` by nats per byte; `right` row by row, for paired comparison."""

    task: str
    digest: str
    rows: int
    of: int
    accuracy: float
    standard_error: float
    accuracy_per_byte: float
    chance: float
    prefix: str
    right: tuple[bool, ...]

    @property
    def is_partial(self) -> bool:
        """Only some of the file's rows were asked: not comparable with published figures."""
        return self.rows < self.of

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "partial": self.is_partial}


def load(path: Path) -> list[Row]:
    """JSONL (also `.gz`) in one of three forms: `query, choices, gold`; `context_options, continuation, gold`; BLiMP's
    `sentence_good, sentence_bad`. Raises UserError naming the first line that is none of them."""
    if not path.is_file():
        raise UserError(t("evaluate.task_missing", file=path))
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    rows = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            rows.append(_row(orjson.loads(line)))
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise UserError(
                t("evaluate.task_broken", file=path),
                where=f"{path}:{number}: {error}",
                fix=t("evaluate.task_broken.fix"),
            ) from None
    if not rows:
        raise UserError(t("evaluate.task_broken", file=path), fix=t("evaluate.task_broken.fix"))
    return rows


def _row(plain: dict[str, Any]) -> Row:
    if "sentence_good" in plain:
        return Row(("", ""), (str(plain["sentence_good"]), str(plain["sentence_bad"])), 0)
    gold = int(plain["gold"])
    if "context_options" in plain:
        contexts = tuple(map(str, plain["context_options"]))
        choices = (_spaced(str(plain["continuation"])),) * len(contexts)
    else:
        choices = tuple(_spaced(str(choice)) for choice in plain["choices"])
        contexts = (str(plain["query"]).rstrip(" "),) * len(choices)
    if not 0 <= gold < len(choices) or len(choices) < 2:
        raise ValueError(f"gold {gold} of {len(choices)} choices")
    return Row(contexts, choices, gold)


def _spaced(choice: str) -> str:
    """A space belongs to the word after it, so it is moved from the end of the context to the beginning of the choice."""
    return f" {choice.strip()}"


def evaluate(
    nats_of: TokenNats,
    tokenizer: Codec,
    task: str,
    rows: Sequence[Row],
    *,
    limit: int | None = None,
    window: int = 256,
    device: torch.device | str = "cpu",
) -> TaskResult:
    """Ask the first `limit` rows. Each text stands behind one end-of-text token, as in training; contexts are cut on the left."""
    asked = list(rows[:limit])
    texts, tails, sizes = [], [], []
    for context, choice in _pairs(asked):
        before, after = tokenizer.encode(context), tokenizer.encode(choice)
        texts.append(np.asarray([*before, *after][-window:], dtype=np.int64))
        tails.append(min(len(after), window))
        sizes.append(max(1, len(choice.strip().encode())))
    scored = document_nats(nats_of, texts, prefix=tokenizer.eos_id, window=window, device=device)
    nats = [float(n[-tail:].sum()) for n, tail in zip(scored, tails, strict=True)]
    right, right_per_byte, at = [], [], 0
    for row in asked:
        cost, size = np.array(nats[at : at + len(row.choices)]), np.array(sizes[at : at + len(row.choices)])
        right.append(bool(np.argmin(cost) == row.gold))
        right_per_byte.append(bool(np.argmin(cost / size) == row.gold))
        at += len(row.choices)
    accuracy = sum(right) / len(right)
    return TaskResult(
        task=task,
        digest=content_id([asdict(row) for row in asked]),
        rows=len(asked),
        of=len(rows),
        accuracy=accuracy,
        standard_error=math.sqrt(accuracy * (1 - accuracy) / max(1, len(right) - 1)),
        accuracy_per_byte=sum(right_per_byte) / len(right),
        chance=sum(1 / len(row.choices) for row in asked) / len(asked),
        prefix="one end-of-text token",
        right=tuple(right),
    )


def _pairs(rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    for row in rows:
        yield from zip(row.contexts, row.choices, strict=True)


@dataclass(frozen=True)
class Paired:
    """Two models on the same rows: difference in accuracy with its bootstrap interval, and McNemar's exact p-value."""

    difference: float
    low: float
    high: float
    only_first: int
    only_second: int
    p: float


def compare(first: TaskResult, second: TaskResult, *, draws: int = 2_000, seed: int = 0) -> Paired:
    """Raises UserError unless both were asked exactly the same rows."""
    if first.digest != second.digest:
        raise UserError(
            t("evaluate.protocols_differ", name="rows"),
            where=f"{first.task}: {first.digest[:12]} | {second.task}: {second.digest[:12]}",
            why=t("evaluate.protocols_differ.why"),
            fix=t("evaluate.task_same.fix"),
        )
    return paired(first.right, second.right, draws=draws, seed=seed)


def paired(first: Sequence[float], second: Sequence[float], *, draws: int = 2_000, seed: int = 0) -> Paired:
    """The same for scores of 0 or 1 on the same rows in the same order."""
    a, b = np.array(first, dtype=float), np.array(second, dtype=float)
    pick = np.random.default_rng(seed).integers(0, a.size, (draws, a.size))
    low, high = np.quantile((a - b)[pick].mean(1), [0.025, 0.975])
    only_a, only_b = int(((a == 1) & (b == 0)).sum()), int(((b == 1) & (a == 0)).sum())
    return Paired(
        float(a.mean() - b.mean()), float(low), float(high), only_a, only_b, mcnemar(only_a, only_b)
    )


def mcnemar(only_first: int, only_second: int) -> float:
    """Exact two-sided McNemar test (1947): the binomial test of the rows on which the two differ."""
    n, k = only_first + only_second, min(only_first, only_second)
    return min(1.0, 2 * sum(comb(n, i) for i in range(k + 1)) / 2**n) if n else 1.0
