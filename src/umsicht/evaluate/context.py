"""How much context a model really uses: the same targets with ever more text before them, and recall of planted facts.

Loss by position alone mixes two things: later tokens have more context, and documents are easier or harder as they go on. So
the *same* targets are scored with 16, 32, … tokens before them; the verdict is the last doubling that still helped.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from umsicht.findings import Finding
from umsicht.score import IGNORE, TokenNats, document_nats

SMALLEST = 16
TARGETS = 32
HELPS = 0.005
"""Nats a token that a doubling of the context must save, with the whole 95 % interval above 0, to count as used."""

NAMES = (
    "Anna",
    "Boris",
    "Clara",
    "David",
    "Elena",
    "Felix",
    "Greta",
    "Henri",
    "Irene",
    "Jonas",
    "Karla",
    "Louis",
)
WORDS = ("river", "window", "garden", "silver", "winter", "bridge", "candle", "forest")


class Codec(Protocol):
    """What is asked of a tokenizer."""

    @property
    def eos_id(self) -> int: ...
    def encode(self, text: str) -> list[int]: ...


@dataclass(frozen=True)
class Gain:
    """Mean loss of the same targets with `context` tokens before them, and what the last doubling saved."""

    context: int
    loss: float
    gain: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Recall:
    """Share of planted facts recalled (the right value more probable than all others) and the share that chance gives."""

    task: str
    length: int
    right: int
    trials: int
    chance: float


@dataclass(frozen=True)
class ContextReport:
    """`used`: the verdict in tokens; `claimed`: what the recipe trained on; `positions`: loss by place in the window."""

    used: int
    claimed: int
    segments: int
    gains: tuple[Gain, ...]
    positions: tuple[tuple[int, int, float], ...]
    recall: tuple[Recall, ...]
    findings: tuple[Finding, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "findings": [finding.to_dict() for finding in self.findings]}


def measure(
    nats_of: TokenNats,
    tokenizer: Codec,
    documents: Sequence[npt.NDArray[np.int64]],
    *,
    claimed: int,
    beyond: int = 2,
    segments: int = 64,
    trials: int = 24,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> ContextReport | None:
    """Measure up to `beyond` times the claimed length; None where no document is long enough for the shortest context.

    `documents` are token ids of held-out text, `nats_of` as in `umsicht.score`.
    """
    longest = claimed * beyond
    pieces = _segments(documents, longest, segments, seed)
    while not pieces and longest > 2 * SMALLEST:
        longest //= 2
        pieces = _segments(documents, longest, segments, seed)
    if not pieces:
        return None
    sizes = _doublings(longest)
    losses = np.stack([_loss_with(nats_of, pieces, size, device) for size in sizes])
    gains = _gains(sizes, losses, seed)
    used = last_useful(gains)
    recall = [
        r
        for length in sorted({claimed // 4, claimed // 2, claimed, longest})
        if length >= 64
        for r in (
            needle(nats_of, tokenizer, documents, length, trials, seed, device),
            key_value(nats_of, tokenizer, length, trials, seed, device),
        )
        if r is not None
    ]
    report = ContextReport(
        used,
        claimed,
        len(pieces),
        tuple(gains),
        _positions(nats_of, pieces, tokenizer.eos_id, device),
        tuple(recall),
    )
    return ContextReport(**{**vars(report), "findings": tuple(judge(report))})


def judge(report: ContextReport) -> list[Finding]:
    """A finding where the model uses less than half of the context that the recipe pays for."""
    if report.used * 2 > report.claimed or report.segments < 8 or report.gains[-1].context < report.claimed:
        return []
    numbers = {"used": report.used, "claimed": report.claimed, "segments": report.segments}
    return [Finding("CONTEXT/unused", "warn", "evaluate", "", numbers)]


def last_useful(gains: Sequence[Gain]) -> int:
    """The context up to which every doubling, or the one after it, still saved something."""
    used = gains[0].context
    for gain in gains[1:]:
        if gain.gain is not None and gain.low is not None and gain.gain >= HELPS and gain.low > 0:
            used = gain.context
    return used


def _segments(
    documents: Sequence[npt.NDArray[np.int64]], context: int, limit: int, seed: int
) -> list[npt.NDArray[np.int64]]:
    """Pieces of `context + TARGETS` tokens, at most a few a document, spread over all of them."""
    size = context + TARGETS
    places = [
        (number, start)
        for number, ids in enumerate(documents)
        for start in range(0, len(ids) - size + 1, max(TARGETS, size // 2))
    ]
    chosen = sorted(random.Random(seed).sample(places, min(limit, len(places))))
    return [documents[number][start : start + size] for number, start in chosen]


def _doublings(longest: int) -> list[int]:
    sizes = [SMALLEST]
    while sizes[-1] * 2 <= longest:
        sizes.append(sizes[-1] * 2)
    return sizes


def _loss_with(
    nats_of: TokenNats, pieces: Sequence[npt.NDArray[np.int64]], context: int, device: torch.device | str
) -> npt.NDArray[np.float64]:
    """[pieces] Mean nats of the last TARGETS tokens of each piece with `context` tokens before the first of them."""
    found = []
    for start in range(0, len(pieces), max(1, 8_192 // (context + TARGETS))):
        batch = pieces[start : start + max(1, 8_192 // (context + TARGETS))]
        ids = torch.from_numpy(
            np.stack([piece[-(context + TARGETS) :] for piece in batch]).astype(np.int64)
        ).to(device)
        inputs, targets = ids[:, :-1], ids[:, 1:].clone()
        targets[:, : context - 1] = IGNORE
        found.append(nats_of(inputs, targets).double().sum(1).cpu().numpy() / TARGETS)
    return np.concatenate(found)


def _gains(sizes: Sequence[int], losses: npt.NDArray[np.float64], seed: int) -> list[Gain]:
    rng = np.random.default_rng(seed)
    pick = rng.integers(0, losses.shape[1], (1_000, losses.shape[1]))
    found = [Gain(sizes[0], float(losses[0].mean()), None, None, None)]
    for i in range(1, len(sizes)):
        saved = losses[i - 1] - losses[i]
        low, high = np.quantile(saved[pick].mean(1), [0.025, 0.975])
        found.append(Gain(sizes[i], float(losses[i].mean()), float(saved.mean()), float(low), float(high)))
    return found


def _positions(
    nats_of: TokenNats, pieces: Sequence[npt.NDArray[np.int64]], prefix: int, device: torch.device | str
) -> tuple[tuple[int, int, float], ...]:
    """(first, last, mean loss) of buckets that double in width."""
    length = len(pieces[0])
    nats = np.stack(
        document_nats(nats_of, pieces, prefix=prefix, window=length, stride=length, device=device)
    ).mean(0)
    edges = [0, *_doublings(length), length]
    buckets = [(a, b) for a, b in zip(edges, edges[1:], strict=False) if b > a]
    return tuple((a, b - 1, float(nats[a:b].mean())) for a, b in buckets)


def needle(
    nats_of: TokenNats,
    tokenizer: Codec,
    documents: Sequence[npt.NDArray[np.int64]],
    length: int,
    trials: int,
    seed: int,
    device: torch.device | str = "cpu",
) -> Recall | None:
    """A sentence planted at a random depth of held-out text; the model must prefer the planted word when asked again."""
    filler = np.concatenate([d for d in documents if len(d) > 8] or [np.zeros(0, dtype=np.int64)])
    if filler.size < 2 * length:
        return None
    rng = random.Random(f"{seed}.needle.{length}")
    cases = []
    for _ in range(trials):
        name, right = rng.choice(NAMES), rng.randrange(len(WORDS))
        planted = tokenizer.encode(f"\nThe secret word of {name} is {WORDS[right]}.\n")
        question = tokenizer.encode(f"\nThe secret word of {name} is")
        answers = [tokenizer.encode(f" {word}") for word in WORDS]
        room = length - len(planted) - len(question) - max(map(len, answers))
        if room < 8:
            return None
        start, depth = rng.randrange(filler.size - room), rng.randrange(room)
        text = filler[start : start + room].tolist()
        cases.append(([*text[:depth], *planted, *text[depth:], *question], answers, right))
    return _ask("needle", length, nats_of, tokenizer.eos_id, cases, device)


def key_value(
    nats_of: TokenNats,
    tokenizer: Codec,
    length: int,
    trials: int,
    seed: int,
    device: torch.device | str = "cpu",
) -> Recall | None:
    """A list `name: word`; the model must prefer the word that was listed beside a name from the first half of it."""
    rng = random.Random(f"{seed}.key.{length}")
    cases = []
    for _ in range(trials):
        text: list[int] = []
        pairs: list[tuple[str, int]] = []
        answers = [tokenizer.encode(f" {word}") for word in WORDS]
        room = length - 24 - max(map(len, answers))
        while True:
            name, value = f"{rng.choice(NAMES)} {len(pairs) + 1}", rng.randrange(len(WORDS))
            line = tokenizer.encode(f"{name}: {WORDS[value]}\n")
            if len(text) + len(line) > room:
                break
            text += line
            pairs.append((name, value))
        if len(pairs) < 4:
            return None
        name, right = rng.choice(pairs[: len(pairs) // 2])
        cases.append(([*text, *tokenizer.encode(f"{name}:")], answers, right))
    return _ask("key-value", length, nats_of, tokenizer.eos_id, cases, device)


def _ask(
    task: str,
    length: int,
    nats_of: TokenNats,
    prefix: int,
    cases: Sequence[tuple[list[int], list[list[int]], int]],
    device: torch.device | str,
) -> Recall:
    texts = [np.asarray([*text, *answer], dtype=np.int64) for text, answers, _ in cases for answer in answers]
    window = max(map(len, texts))
    nats = iter(document_nats(nats_of, texts, prefix=prefix, window=window, stride=window, device=device))
    right = 0
    for _, answers, wanted in cases:
        # nats a token: answers may have different numbers of tokens
        cost = [float(next(nats)[-len(answer) :].mean()) for answer in answers]
        right += int(np.argmin(cost)) == wanted
    return Recall(task, length, right, len(cases), 1 / len(WORDS))
