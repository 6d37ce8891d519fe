"""Rewards that a program can check."""

from __future__ import annotations

import re
from collections.abc import Callable

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
