"""Texts that deserve a label: spam, boilerplate, insults, and text that nobody should learn from. Insults are built from the word lists of the package
`badwords-py` (CC BY 4.0 and MIT), which is read, not imported; they are never printed.
"""

from __future__ import annotations

import importlib.metadata
import json
import random
import re
import sys
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
SHIPPED = ("spam", "boilerplate", "low-quality")
"""`toxic` can be trained by name and is not shipped: on real comments (toxicity-surge) its precision was 0.45 where half of them are toxic."""
LABELS_ONLY = ("spam", "toxic")
"""On real messages (sms-spam) the precision of `spam` was 0.38: it may say what it thinks, not drop."""
PACKAGE = "badwords-py"
Maker = Callable[[random.Random, bool], str]
"""Makes one text; the flag asks for sentences that training never sees."""


def maker(name: str, language: str, ordinary: list[str]) -> Maker:
    """What makes the texts of one label in one language; `ordinary` is text to mix in or to spoil."""
    if name == "low-quality":
        cut = len(ordinary) // 5
        return lambda rng, held: _spoiled(rng, rng.choice(ordinary[:cut] if held else ordinary[cut:]))
    words = json.loads((HERE / f"labels_{language}.json").read_text(encoding="utf-8"))
    if name == "toxic":
        words["bad"] = bad_words(language)
    templates = words[name][:]
    random.Random(0).shuffle(templates)
    cut = max(3, len(templates) // 5)

    def made(rng: random.Random, held: bool) -> str:
        if name == "toxic" and ordinary and rng.random() < 0.5:
            return _insulting(rng, words["bad"], rng.choice(ordinary), held)
        chosen = templates[:cut] if held else templates[cut:]
        lines = [_filled(rng, words, rng.choice(chosen), held) for _ in range(rng.randint(1, 6))]
        if name == "toxic" and ordinary and rng.random() < 0.5:
            sentences = re.split(r"(?<=[.!?])\s+", rng.choice(ordinary))
            lines.insert(rng.randint(0, len(lines)), " ".join(sentences[: rng.randint(1, 2)])[:200])
        if name == "spam" and rng.random() < 0.15:
            lines = [line.upper() for line in lines]
        return rng.choice((" ", " ", "\n")).join(lines)

    return made


def _insulting(rng: random.Random, bad: list[str], text: str, held: bool) -> str:
    """Ordinary words with insults among them: what must be learned are the insults."""
    cut = max(1, len(bad) // 5)
    words = text.split()[: rng.randint(3, 25)]
    for _ in range(rng.randint(1, 3)):
        words.insert(rng.randint(0, len(words)), rng.choice(bad if held else bad[cut:]))
    return " ".join(words)


def _filled(rng: random.Random, words: dict[str, list[str]], template: str, held: bool) -> str:
    def word(match: re.Match[str]) -> str:
        known = words[match[1]]
        cut = max(1, len(known) // 5)
        return rng.choice(known if held else known[cut:])

    text = re.sub(r"\{(\w+)\}", word, template)
    return text[0].upper() + text[1:]


def bad_words(language: str) -> list[str]:
    """Words of the package's list for one language."""
    try:
        package = importlib.metadata.distribution(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        sys.exit(f"pip install --no-deps {PACKAGE}==3.0.0")
    path = Path(str(package.locate_file(f"badwords/resource/words/{language}.txt")))
    found = [line.strip() for line in path.read_text(encoding="utf-8").split("\n")]
    kept = [word for word in found if 3 < len(word) < 25]
    random.Random(1).shuffle(kept)
    return kept


def _spoiled(rng: random.Random, text: str) -> str:
    """Text as bad scans, keyword pages and broken programs leave it."""
    words = text.split() or ["x"]
    kind = rng.randrange(4)
    if kind == 0:
        rate = rng.uniform(0.08, 0.25)
        signs = "|~^*_;:.,!il1IO0§¬»«"
        return "".join(rng.choice(signs) if c.isalpha() and rng.random() < rate else c for c in text)
    if kind == 1:
        few = rng.sample(words, min(len(words), rng.randint(3, 7)))
        return " ".join(rng.choice(few) for _ in range(rng.randint(30, 120)))
    if kind == 2:
        letters = "".join(word for word in words if word.isalpha()) or "abc"
        made = (
            "".join(rng.choice(letters) for _ in range(rng.randint(2, 11)))
            for _ in range(rng.randint(20, 90))
        )
        return " ".join(made)
    return " ".join(
        word.upper() + rng.choice(("!!!", "!!", "???", "...", "")) for word in words[: rng.randint(10, 120)]
    )
