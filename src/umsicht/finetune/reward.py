"""Rewards: what a program can check in a text, and the judges that give them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Protocol

from umsicht.tokenizer import Tokenizer
from umsicht.tokenizer.chat import stop_ids

Reward = Callable[[str, str], float]
"""(what was written, the problem's answer) → reward."""

_NUMBER = re.compile(r"-?\d[\d.,]*")


def last_number(text: str) -> str | None:
    """The last number in `text` without thousands separators, or None; `1.0` and `1` are the same."""
    found = _NUMBER.findall(text)
    if not found:
        return None
    plain: str = found[-1].rstrip(".,").replace(",", "")
    return plain.removesuffix(".0")


def number(written: str, answer: str) -> float:
    """1 where the last number written is the answer's last number (in GSM8K it stands behind ####)."""
    wanted = last_number(answer)
    return float(wanted is not None and last_number(written) == wanted)


def exact(written: str, answer: str) -> float:
    """1 where the text is the answer, white space at both ends aside."""
    return float(written.strip() == answer.strip())


def contains(written: str, answer: str) -> float:
    """1 where the answer occurs in the text."""
    return float(answer.strip() in written)


REWARDS: dict[str, Reward] = {"number": number, "exact": exact, "contains": contains}


class Judge(Protocol):
    """Rewards for drawn answers."""

    def __call__(
        self, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], wanted: Sequence[str]
    ) -> list[float]:
        """One reward an answer, from the ids of prompt and answer (its end token included, if it was reached) and the
        problem's own answer."""
        ...


class Checked:
    """A judge that lets a program check the text."""

    def __init__(self, reward: Reward, tokenizer: Tokenizer) -> None:
        self._reward = reward
        self._tokenizer = tokenizer
        self._stops = set(stop_ids(tokenizer))

    def __call__(
        self, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], wanted: Sequence[str]
    ) -> list[float]:
        """The reward of each answer's text, end tokens aside."""
        texts = [self._tokenizer.decode(i for i in answer if i not in self._stops) for answer in answers]
        return [self._reward(text, answer) for text, answer in zip(texts, wanted, strict=True)]
