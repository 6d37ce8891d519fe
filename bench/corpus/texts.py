"""Text for the benches: real documents, and variations of them that share vocabulary but hardly a run of five words."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path

from umsicht.corpus.sources.read import read_unit
from umsicht.corpus.sources.starter import starter_units
from umsicht.corpus.sources.unit import Raw

PARTS = ("wiki", "wiktionary", "api", "speeches", "stdlib")


def real_documents() -> Iterator[str]:
    """Documents of the starter packages that are installed, cut into pieces of at most 6,000 characters."""
    units, _ = starter_units("starter", PARTS, None)
    for unit in units:
        for item in read_unit(unit, 8_000_000):
            if isinstance(item, Raw):
                text = item.text.decode("utf-8", "replace") if isinstance(item.text, bytes) else item.text
                for first in range(0, len(text), 6_000):
                    yield text[first : first + 6_000]


def varied(size: int, seed: int = 0) -> list[str]:
    """About `size` characters: real documents, then variations in which most words are exchanged, then 5 % exact or nearly exact copies."""
    rng = random.Random(seed)
    real = list(real_documents())
    rng.shuffle(real)
    found: list[str] = []
    total = 0
    while total < size:
        round_number = total
        for text in real:
            if total >= size:
                break
            made = text if round_number == 0 else _exchange(rng, text, rng.choice(real))
            found.append(made)
            total += len(made)
            if rng.random() < 0.05:
                found.append(made if rng.random() < 0.5 else made[: int(len(made) * 0.9)])
                total += len(found[-1])
    return found


def respelt(texts: list[str], number: int) -> Iterator[str]:
    """The texts with their consonants exchanged for others, in another way for every number (0: as they are): as many words, and other ones."""
    consonants = list("bcdfghjklmnpqrstvwxz")
    others = consonants.copy()
    random.Random(number).shuffle(others)
    signs = bytes.maketrans("".join(consonants).encode(), "".join(others if number else consonants).encode())
    return (text.encode().translate(signs).decode() for text in texts)


def _exchange(rng: random.Random, text: str, other: str) -> str:
    """Words of two texts dealt out in a random order: natural words, unnatural neighbours."""
    words = text.split(" ") + other.split(" ")[:50]
    rng.shuffle(words)
    return " ".join(words)


def gzip_rows(path: Path) -> list[dict[str, str]]:
    """Rows of a packed JSONL file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]
