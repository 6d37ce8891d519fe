"""Rare facts: does the model know what stands in its training text once, ten times, a hundred times?

The mean loss is made of function words and hides this. Facts are mined from the training text itself: a capitalised name, or
a number, that its context nearly determines there; the model is asked for it, and recall is told by how often it was seen.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
import torch

from umsicht.score import TokenNats, document_nats

BUCKETS = (1, 2, 4, 10, 30, 100)
_CLOZE = re.compile(r"((?:[^\W\d_]+[ ,]+){4,10})((?:[A-ZÄÖÜÉÈÇÑİŞ][^\W\d_]{3,}|\d{3,4}))(?=[ .,;])")
CHOICES = 8


class Codec(Protocol):
    """What is asked of a tokenizer."""

    @property
    def eos_id(self) -> int: ...
    def encode(self, text: str) -> list[int]: ...


@dataclass(frozen=True)
class Fact:
    """`context` is followed by `answer`; `seen` times the last words of the context stood before it in the training text."""

    context: str
    answer: str
    seen: int


@dataclass(frozen=True)
class Bucket:
    """Facts seen `low`..`high` times: share of them where the right answer was the most probable of `choices`; mean nats a fact."""

    low: int
    high: int | None
    facts: int
    recall: float
    nats: float
    choices: int = CHOICES


def mine(texts: Iterable[str], *, limit: int = 400, longest: int = 4_000_000, seed: int = 0) -> list[Fact]:
    """Clozes from training texts, spread over how often they were seen; `longest` characters are read at most."""
    seen: Counter[tuple[str, str]] = Counter()
    contexts: dict[tuple[str, str], str] = {}
    followers: dict[str, set[str]] = defaultdict(set)
    read = 0
    for text in texts:
        read += len(text)
        if read > longest:
            break
        for match in _CLOZE.finditer(text):
            context, answer = match[1], match[2]
            key = " ".join(context.split()[-4:]).lower()
            seen[key, answer] += 1
            contexts.setdefault((key, answer), context)
            followers[key].add(answer)
    # a context with several continuations asks for a guess, not for a fact
    sole = [(pair, n) for pair, n in seen.items() if len(followers[pair[0]]) == 1]
    by_bucket: dict[int, list[Fact]] = defaultdict(list)
    for (key, answer), n in sorted(sole):
        by_bucket[_bucket(n)].append(Fact(contexts[key, answer].rstrip(" "), answer, n))
    rng = random.Random(seed)
    share = max(1, limit // max(1, len(by_bucket)))
    return [f for _, facts in sorted(by_bucket.items()) for f in rng.sample(facts, min(share, len(facts)))]


def _bucket(n: int) -> int:
    return max(i for i, low in enumerate(BUCKETS) if n >= low)


def ask(
    nats_of: TokenNats,
    tokenizer: Codec,
    facts: Sequence[Fact],
    *,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> list[Bucket]:
    """Recall by how often a fact was seen. The wrong choices are answers of other facts of the same kind (word or number)."""
    rng = random.Random(seed)
    texts: list[np.ndarray[Any, Any]] = []
    lengths: list[list[int]] = []
    usable: list[Fact] = []
    for fact in facts:
        kind = fact.answer[0].isdigit()
        others = sorted(
            {f.answer for f in facts if f.answer[0].isdigit() == kind and f.answer != fact.answer}
        )
        if len(others) < CHOICES - 1:
            continue
        before = tokenizer.encode(fact.context)
        options = [tokenizer.encode(f" {word}") for word in (fact.answer, *rng.sample(others, CHOICES - 1))]
        texts += [np.asarray([*before, *option], dtype=np.int64) for option in options]
        lengths.append([len(option) for option in options])
        usable.append(fact)
    if not usable:
        return []
    window = max(map(len, texts))
    nats = iter(document_nats(nats_of, texts, prefix=tokenizer.eos_id, window=window, device=device))
    results: dict[int, list[tuple[bool, float]]] = defaultdict(list)
    for fact, sizes in zip(usable, lengths, strict=True):
        cost = [next(nats)[-size:] for size in sizes]
        results[_bucket(fact.seen)].append(
            (int(np.argmin([c.mean() for c in cost])) == 0, float(cost[0].sum()))
        )
    return [
        Bucket(
            BUCKETS[i],
            BUCKETS[i + 1] - 1 if i + 1 < len(BUCKETS) else None,
            len(rows),
            sum(right for right, _ in rows) / len(rows),
            sum(n for _, n in rows) / len(rows),
        )
        for i, rows in sorted(results.items())
    ]


def to_dicts(buckets: Sequence[Bucket]) -> list[dict[str, Any]]:
    """As plain JSON."""
    return [asdict(bucket) for bucket in buckets]
