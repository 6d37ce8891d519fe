"""What conversations say, read before the first step: marks of another template, cut and copied answers, swapped roles, broken text.

A row may be in perfect form and teach the wrong thing. Everything here is a share of many rows, so that a row that is *about* a
template or quotes its question stays what it is.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from umsicht.findings import Finding, Grade
from umsicht.words import t

from .rows import Conversation, Preference, Problem, Row

ENOUGH = 20
"""Fewer rows have no shares worth speaking of."""

_MARKS = re.compile(
    r"<\|[a-z][a-z0-9_ ]{1,40}\|>"  # <|im_start|>, <|endoftext|>, <|eot_id|>, <|user|>
    r"|</?s>|\[/?INST\]|<</?SYS>>|<(?:start|end)_of_turn>|<\uff5c[^\uff5c]{1,40}\uff5c>"
    r"|^#{2,3} (?:Instruction|Response|Input|Human|Assistant|User):?[ \t]*$"
    r"|^(?:Human|User|Assistant|ASSISTANT|USER|GPT):",
    re.MULTILINE,
)
_ENTITY = re.compile(r"&(?:amp|lt|gt|quot|nbsp|apos|#\d{2,5}|#x[0-9a-fA-F]{2,5});")
_OPEN_END = re.compile(r"[\w,;:(\-–]$")


@dataclass(frozen=True)
class Said:
    """The last question and its answer (of a preference: the preferred one), with everything around them as one text."""

    id: str
    question: str
    answer: str
    whole: str


def said(row: Row) -> Said:
    """`row` as what is asked and what is answered; a problem's checked answer is no text to imitate and left empty."""
    if isinstance(row, Conversation):
        messages, answer = row.messages[:-1], row.messages[-1]["content"]
    elif isinstance(row, Preference):
        messages, answer = row.prompt, row.chosen
    else:
        messages, answer = row.prompt, ""
    question = messages[-1]["content"] if messages else ""
    return Said(row.id, question, answer, "\n".join([*(m["content"] for m in messages), answer]))


def read(rows: Sequence[Row]) -> list[Finding]:
    """Findings about what the rows say; nothing where they are too few to have shares."""
    if len(rows) < ENOUGH:
        return []
    texts = [said(row) for row in rows]
    found = [*_marks(texts), *_broken(texts)]
    if not isinstance(rows[0], Problem):
        found += [*_repeated(texts), *_cut(texts), *_swapped(texts)]
    if isinstance(rows[0], Conversation):
        found += _same(texts)
    return found


def cut_by_context(table: Mapping[str, Any], seq_len: int) -> list[Finding]:
    """FINETUNE/answers-cut where the stage's own table says that conversations end at the context's end: without an end token."""
    cut, of = int(table.get("cut", 0)), int(table.get("examples", 0))
    if not of or cut < max(2, 0.05 * of):
        return []
    numbers: dict[str, Any] = {
        "rows": cut,
        "of": of,
        "share": round(100 * cut / of, 1),
        "length": seq_len,
        "unit": t("finetune.unit.tokens"),
    }
    grade: Grade = "stop" if cut >= 0.5 * of else "warn"
    return [Finding("FINETUNE/answers-cut", grade, "finetune", "context", numbers)]


def _finding(name: str, grade: Grade, texts: Sequence[Said], hits: Sequence[Said], **more: object) -> Finding:
    numbers = {"rows": len(hits), "of": len(texts), "share": round(100 * len(hits) / len(texts), 1), **more}
    shown = tuple(_excerpt(one) for one in hits[:3])
    return Finding(f"FINETUNE/{name}", grade, "finetune", f"row {hits[0].id}", numbers, shown)


def _excerpt(one: Said, length: int = 60) -> str:
    return f"{one.question[:length]!r} → {one.answer[:length]!r}"


def _marks(texts: Sequence[Said]) -> Iterator[Finding]:
    """Marks of a chat template inside the texts: the template is applied once more, or the marks stay text that is never a token."""
    hits = [one for one in texts if _MARKS.search(one.whole)]
    share = len(hits) / len(texts)
    if len(hits) < 3 or share < 0.02:
        return
    common = Counter(mark.strip() for one in hits for mark in set(_MARKS.findall(one.whole)))
    shown = ", ".join(mark for mark, _ in common.most_common(4))
    yield _finding("marks-in-text", "stop" if share >= 0.2 else "warn", texts, hits, marks=shown)


def _broken(texts: Sequence[Said]) -> Iterator[Finding]:
    """Text that was encoded once too often: line feeds as backslash and n, UTF-8 read as Latin-1, HTML entities."""
    kinds: dict[str, Callable[[str], bool]] = {
        "\\n": lambda text: "\\n" in text and "\n" not in text and text.count("\\n") == text.count("\\"),
        "UTF-8/Latin-1": _doubly_encoded,
        "&amp;": lambda text: bool(_ENTITY.search(text)) and html.unescape(text) != text,
    }
    for kind, is_broken in kinds.items():
        hits = [one for one in texts if is_broken(one.answer or one.question)]
        if len(hits) >= 0.1 * len(texts):
            yield _finding("broken-text", "warn", texts, hits, kind=kind)


def _doubly_encoded(text: str) -> bool:
    """True where the text's own bytes, read as Windows-1252 or Latin-1 characters, are UTF-8 of another text."""
    if text.isascii():
        return False
    for code in ("cp1252", "latin-1"):
        try:
            return text.encode(code).decode("utf-8") != text
        except UnicodeError:
            continue
    return False


def _repeated(texts: Sequence[Said]) -> Iterator[Finding]:
    """Answers that begin with, or are, their question: what pipelines write that return prompt and answer together."""
    hits = [
        one
        for one in texts
        if len(one.question.strip()) >= 8 and one.question.strip() in one.answer[: len(one.question) + 40]
    ]
    if len(hits) >= 0.5 * len(texts):
        yield _finding("prompt-repeated", "warn", texts, hits)


def _same(texts: Sequence[Said]) -> Iterator[Finding]:
    """One answer to very many questions, where the others are all different: a refusal, a placeholder, a failed export."""
    counts = Counter(one.answer.strip() for one in texts)
    answer, most = counts.most_common(1)[0]
    others = len(texts) - most
    distinct = len(counts) - 1
    if most < max(5, 0.15 * len(texts)) or (others and distinct < 0.8 * others):
        return
    hits = [one for one in texts if one.answer.strip() == answer]
    yield _finding("same-answer", "warn", texts, hits, answer=answer[:80])


def _cut(texts: Sequence[Said]) -> Iterator[Finding]:
    """Answers that pile up at one greatest length and break off there."""
    units: dict[str, Callable[[str], int]] = {
        "characters": len,
        "bytes": lambda text: len(text.encode()),
        "words": lambda text: len(text.split()),
    }
    for unit, measure in units.items():
        longest = max(measure(one.answer) for one in texts)
        hits = [one for one in texts if measure(one.answer) == longest]
        different = len({one.answer for one in hits})
        if longest < (40 if unit != "words" else 10) or different < max(5, 0.05 * len(texts)):
            continue
        if len({one.answer[-12:] for one in hits}) < 0.5 * len(hits):
            continue
        open_ends = sum(bool(_OPEN_END.search(one.answer.rstrip())) for one in hits)
        if open_ends >= 0.5 * len(hits):
            yield _finding(
                "answers-cut", "warn", texts, hits, length=longest, unit=t(f"finetune.unit.{unit}")
            )
            return


def _swapped(texts: Sequence[Said]) -> Iterator[Finding]:
    """The assistant asks and the user answers."""
    asks = [one for one in texts if one.answer.rstrip().endswith("?")]
    asked = sum("?" in one.question for one in texts)
    if len(asks) >= 0.6 * len(texts) and asked <= 0.1 * len(texts):
        yield _finding("roles-swapped", "warn", texts, asks, asked=round(100 * asked / len(texts), 1))
