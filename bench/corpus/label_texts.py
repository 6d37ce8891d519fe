"""Texts that deserve a label: spam, boilerplate, insults, and text that nobody should learn from. Insults are built from the word lists of the package
`badwords-py` (CC BY 4.0 and MIT), which is read, not imported; they are never printed.
"""

from __future__ import annotations

import base64
import importlib.metadata
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
SHIPPED = ("spam", "boilerplate", "low-quality", "toxic")
LABELS_ONLY = ("spam", "toxic")
"""On real messages (sms-spam) the precision of `spam` was 0.38, that of `toxic` on real comments (toxicity-surge) is below 0.9: they may say what they
think, not drop."""
PACKAGE = "badwords-py"
Maker = Callable[[random.Random, bool], str]
"""Makes one text; the flag asks for sentences that training never sees."""


def lists_of(language: str) -> dict[str, list[str]]:
    """Templates and words of one language. Lists that hold insults, or civil talk about them, are kept in base64: nobody need read them in passing."""
    listed = json.loads((HERE / f"labels_{language}.json").read_text(encoding="utf-8"))
    return {
        name: json.loads(base64.b64decode(found)) if isinstance(found, str) else found
        for name, found in listed.items()
    }


def maker(name: str, language: str, ordinary: list[str], *, harmless: bool = False) -> Maker:
    """What makes the texts of one label in one language; `ordinary` is text to mix in or to spoil.

    With `harmless`, toxic texts have ordinary words instead of insults. The same draws make two texts that differ in these words alone, so that
    it is the words that a classifier learns, and not how people talk who use them.
    """
    if name == "low-quality":
        cut = len(ordinary) // 5
        return lambda rng, held: _spoiled(rng, rng.choice(ordinary[:cut] if held else ordinary[cut:]))
    words = lists_of(language)
    if name == "toxic":
        words["bad"] = bad_words(language, ordinary)
        if harmless:
            words["bad"] = rare_words(ordinary, len(words["bad"]))
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


def civil_maker(language: str, ordinary: list[str]) -> Maker:
    """What makes texts that are not toxic and share words or tone with those that are: disagreement, illness, war, crime, and hard words in quotes."""
    words = lists_of(language)
    words["bad"] = bad_words(language, ordinary)
    templates = words["civil"][:]
    random.Random(0).shuffle(templates)
    cut = len(templates) // 4

    def made(rng: random.Random, held: bool) -> str:
        chosen = templates[:cut] if held else templates[cut:]
        lines = [_filled(rng, words, rng.choice(chosen), held) for _ in range(rng.randint(1, 5))]
        return rng.choice((" ", " ", "\n")).join(lines)

    return made


def rare_words(ordinary: list[str], n: int) -> list[str]:
    """So many words that few ordinary texts use."""
    texts = Counter(word for text in ordinary for word in set(re.findall(r"[^\W\d_]{4,}", text.lower())))
    found = sorted(word for word, count in texts.items() if COMMON < count <= 10 * COMMON)
    random.Random(2).shuffle(found)
    return found[:n]


COMMON = 3
"""A listed word in more ordinary texts than this has an ordinary meaning, and is left out."""


def bad_words(language: str, ordinary: list[str]) -> list[str]:
    """Words of the package's list for one language that ordinary texts do not use."""
    try:
        package = importlib.metadata.distribution(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        sys.exit(f"pip install --no-deps {PACKAGE}==3.0.0")
    path = Path(str(package.locate_file(f"badwords/resource/words/{language}.txt")))
    found = [line.strip() for line in path.read_text(encoding="utf-8").split("\n")]
    texts = Counter(word for text in ordinary for word in set(re.findall(r"\w+", text.lower())))
    kept = [word for word in found if 3 < len(word) < 25 and texts[word.lower()] <= COMMON]
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
