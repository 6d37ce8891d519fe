"""Texts for builds: words that make no sense together, so that texts are alike only where a test makes them so."""

from __future__ import annotations

import json
import random
from pathlib import Path

WORDS = [
    "amber",
    "bridge",
    "candle",
    "dune",
    "ember",
    "fern",
    "grove",
    "harbour",
    "iron",
    "jasper",
    "kelp",
    "lantern",
    "moss",
    "nettle",
    "oak",
    "pebble",
]


def sentences(n: int, seed: int = 0) -> list[str]:
    """Texts that hardly share a run of five words."""
    rng = random.Random(seed)
    return [f"{k} " + " ".join(rng.choice(WORDS) for _ in range(14)) + "." for k in range(n)]


def write_texts(path: Path, n: int) -> None:
    """Documents of 90 words; a fifth of them is cut out of earlier ones."""
    rng = random.Random(1)
    made: list[str] = []
    with path.open("w", encoding="utf-8") as file:
        for k in range(n):
            if made and rng.random() < 0.2:
                text = rng.choice(made)[: rng.randint(200, 2000)]
            else:
                text = f"{k} " + " ".join(rng.choice(WORDS) + str(rng.randint(0, 9)) for _ in range(90))
            made.append(text)
            file.write(json.dumps({"text": text}) + "\n")
