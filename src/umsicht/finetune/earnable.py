"""Can a reward be earned, and can it be earned without knowing the answer? Asked of the reward itself, before anything is drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from umsicht.findings import Finding, Grade
from umsicht.tokenizer import Tokenizer
from umsicht.words import t

from .contents import ENOUGH
from .reward import Reward, last_number
from .rows import Problem

EASY = 0.7
"""A text that knows nothing and earns this share of the rewards is what will be learned."""


def earnable(
    problems: Sequence[Problem], name: str, reward: Reward, tokenizer: Tokenizer, room: int
) -> list[Finding]:
    """Findings about the reward `name` on these problems, `room` tokens being the longest answer."""
    if len(problems) < ENOUGH:
        return []
    found = list(_unearnable(problems, name, reward, tokenizer, room))
    return found or list(_too_easy(problems, name, reward, tokenizer, room))


def shortest(name: str, answer: str) -> str:
    """The shortest text that should earn the reward `name` for `answer`."""
    return (last_number(answer) or "") if name == "number" else answer.strip()


def _unearnable(
    problems: Sequence[Problem], name: str, reward: Reward, tokenizer: Tokenizer, room: int
) -> Iterator[Finding]:
    hits: list[tuple[Problem, str]] = []
    for problem in problems:
        text = shortest(name, problem.answer)
        if not text or not reward(text, problem.answer):
            hits.append((problem, t("finetune.way.nothing")))
        elif len(tokenizer.encode(text)) > room:
            hits.append((problem, t("finetune.way.long")))
    if len(hits) < 0.05 * len(problems):
        return
    share = len(hits) / len(problems)
    numbers = {
        "problems": len(hits),
        "of": len(problems),
        "share": round(100 * share, 1),
        "reward": name,
        "room": room,
    }
    shown = tuple(f"{why}: {problem.answer[:60]!r}" for problem, why in hits[:3])
    where = f"row {hits[0][0].id}"
    grade: Grade = "stop" if share >= 0.5 else "warn"
    yield Finding("FINETUNE/reward-unearnable", grade, "finetune", where, numbers, shown)


def _too_easy(
    problems: Sequence[Problem], name: str, reward: Reward, tokenizer: Tokenizer, room: int
) -> Iterator[Finding]:
    """What the best of three ways that know nothing earns: repeat the question, always write the commonest answer, write many answers at once."""
    wanted = Counter(shortest(name, problem.answer) for problem in problems)
    ways = {
        "question": [problem.prompt[-1]["content"] for problem in problems],
        "commonest": [wanted.most_common(1)[0][0]] * len(problems),
        "many": [_joined(wanted, tokenizer, room)] * len(problems),
    }
    earned = {
        way: sum(reward(text, problem.answer) for text, problem in zip(texts, problems, strict=True))
        / len(problems)
        for way, texts in ways.items()
    }
    way = max(earned, key=lambda one: earned[one])
    if earned[way] >= EASY:
        numbers = {
            "share": round(100 * earned[way], 1),
            "problems": len(problems),
            "reward": name,
            "way": t(f"finetune.way.{way}"),
            "text": ways[way][0][:60],
        }
        yield Finding("FINETUNE/reward-too-easy", "warn", "finetune", f"reward {name}", numbers)


def _joined(wanted: Counter[str], tokenizer: Tokenizer, room: int) -> str:
    """As many of the commonest answers as fit into `room` tokens, side by side."""
    out: list[str] = []
    for answer, _ in wanted.most_common(room):
        if len(tokenizer.encode(" ".join([*out, answer]))) > room:
            break
        out.append(answer)
    return " ".join(out)
