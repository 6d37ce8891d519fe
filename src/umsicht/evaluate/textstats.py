"""What can be counted in a generated text without understanding it: repetition, variety, loops."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class TextStats:
    """Counts of one output, over its tokens.

    `repetition`: share of 4-grams that stood earlier in the same output (seq-rep-4 of Welleck et al. 2020);
    `distinct_1..3`: distinct n-grams over n-grams (Li et al. 2016); `loop_tokens`: tokens at the end that go round in a
    cycle of at most 32 tokens. All are 0 (or 1 for the distinct ones) where the output is too short to hold an n-gram.
    """

    generated_tokens: int
    repetition: float
    distinct_1: float
    distinct_2: float
    distinct_3: float
    loop_tokens: int

    def to_dict(self) -> dict[str, float | int]:
        return asdict(self)


def distinct(tokens: Sequence[Hashable], n: int) -> float:
    """Distinct n-grams over all n-grams of `tokens`; 1.0 where there is none."""
    grams = [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]
    return len(set(grams)) / len(grams) if grams else 1.0


def loop_tokens(tokens: Sequence[Hashable], longest_period: int = 32, rounds: int = 3) -> int:
    """Length of the cycle-bound end of `tokens`: at least `rounds` rounds of one period; 0 where there is no loop."""
    best = 0
    for period in range(1, longest_period + 1):
        length = 0
        while length + period < len(tokens) and tokens[-1 - length] == tokens[-1 - length - period]:
            length += 1
        if length and length + period >= rounds * period:
            best = max(best, length + period)
    return best


def measure(tokens: Sequence[Hashable]) -> TextStats:
    """All counts of one output (token ids, or words)."""
    return TextStats(
        generated_tokens=len(tokens),
        repetition=1.0 - distinct(tokens, 4),
        distinct_1=distinct(tokens, 1),
        distinct_2=distinct(tokens, 2),
        distinct_3=distinct(tokens, 3),
        loop_tokens=loop_tokens(tokens),
    )
