"""What preference pairs teach, read before the first step: pairs that contradict each other, and a form that alone tells which is preferred."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from umsicht.findings import Finding
from umsicht.words import t

from .contents import ENOUGH, said
from .rows import Preference

TELLING = 0.9
"""A form that picks the preferred answer in this share of the pairs is what a model will learn."""

_MARKDOWN = re.compile(r"^(?:#{1,6} |[-*] |\d+\. |```)|\*\*", re.MULTILINE)

FORMS: dict[str, Callable[[str], float]] = {
    "length": len,
    "lines": lambda text: text.count("\n"),
    "markdown": lambda text: len(_MARKDOWN.findall(text)),
    "exclamations": lambda text: text.count("!"),
    "questions": lambda text: text.count("?"),
    "digits": lambda text: sum(c.isdigit() for c in text),
}
"""Figures of an answer's form that need no understanding of what it says."""


def compare(pairs: Sequence[Preference]) -> list[Finding]:
    """Findings about the choices; nothing where pairs are too few to have shares."""
    if len(pairs) < ENOUGH:
        return []
    found = list(_contradictions(pairs))
    return found or [*_form(pairs), *_constant(pairs)]


def _contradictions(pairs: Sequence[Preference]) -> Iterator[Finding]:
    """The same two answers to the same prompt, preferred both ways."""
    made = {(_prompt(pair), pair.chosen, pair.rejected) for pair in pairs}
    hits = [pair for pair in pairs if (_prompt(pair), pair.rejected, pair.chosen) in made]
    share = len(hits) / len(pairs)
    if len(hits) >= 2 and share >= 0.01:
        numbers = {"pairs": len(hits), "of": len(pairs), "share": round(100 * share, 1)}
        yield Finding(
            "FINETUNE/choices-contradict",
            "stop" if share >= 0.5 else "warn",
            "finetune",
            f"row {hits[0].id}",
            numbers,
            tuple(_excerpt(pair) for pair in hits[:2]),
        )


def _prompt(pair: Preference) -> str:
    return said(pair).whole.removesuffix(pair.chosen)


def _excerpt(pair: Preference) -> str:
    return f"{pair.chosen[:50]!r} > {pair.rejected[:50]!r}"


def _form(pairs: Sequence[Preference]) -> Iterator[Finding]:
    """One figure of form, with ties counted half, against the choices. The most telling one is named."""
    best = max((_accuracy(pairs, name) for name in FORMS), key=lambda entry: entry[0])
    share, name, sign, chosen, rejected = best
    if share >= TELLING:
        numbers = {
            "share": round(100 * share, 1),
            "pairs": len(pairs),
            "form": t(f"finetune.form.{name}"),
            "way": t("finetune.form.more" if sign > 0 else "finetune.form.less"),
            "chosen": round(chosen, 1),
            "rejected": round(rejected, 1),
        }
        shown = tuple(_excerpt(pair) for pair in pairs[:2])
        yield Finding("FINETUNE/choice-by-form", "warn", "finetune", name, numbers, shown)


def _accuracy(pairs: Sequence[Preference], name: str) -> tuple[float, str, int, float, float]:
    measure = FORMS[name]
    sides = [(measure(pair.chosen), measure(pair.rejected)) for pair in pairs]
    more = sum(1.0 if a > b else 0.5 if a == b else 0.0 for a, b in sides) / len(sides)
    middle = len(sides) // 2
    chosen, rejected = sorted(a for a, _ in sides)[middle], sorted(b for _, b in sides)[middle]
    return max((more, name, 1, chosen, rejected), (1 - more, name, -1, chosen, rejected))


def _constant(pairs: Sequence[Preference]) -> Iterator[Finding]:
    """One side is mostly the same sentence, while the other is not: it is told by its words, not by its worth."""
    for side in ("chosen", "rejected"):
        counts = Counter(getattr(pair, side).strip() for pair in pairs)
        text, most = counts.most_common(1)[0]
        other = "rejected" if side == "chosen" else "chosen"
        as_often = sum(getattr(pair, other).strip() == text for pair in pairs)
        if most >= 0.5 * len(pairs) and as_often <= 0.1 * most:
            numbers = {"share": round(100 * most / len(pairs), 1), "pairs": len(pairs), "answer": text[:80]}
            yield Finding("FINETUNE/one-side-constant", "warn", "finetune", side, {**numbers, "side": side})
            return
