"""Labelled copies in six languages and code: what must go goes, what must stay stays."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.common import QUICK, Bench
from bench.corpus.texts import real_documents
from umsicht.corpus.engine import Serial
from umsicht.corpus.index import save_array
from umsicht.corpus.kernels import oracle
from umsicht.corpus.near import NearJob, find_near
from umsicht.corpus.near.tasks import SpanFile
from umsicht.corpus.work import Workspace

ORIGINALS = 400 if QUICK else 2_000
TEMPLATES = 1_000 if QUICK else 5_000
KINDS = ("substitution", "cut off", "prefix", "white space", "capitals", "reuse")


def run(bench: Bench) -> None:
    """Recall at a true likeness of 0.8, precision at the verified threshold, planted templates."""
    rng = random.Random(0)
    pool = [text for text in real_documents() if 400 < len(text) < 4_000]
    rng.shuffle(pool)
    originals = _different(pool)[:ORIGINALS]
    copies = [_copy(rng, KINDS[k % len(KINDS)], text, pool) for k, text in enumerate(originals)]
    texts = originals + copies
    drops = _search(texts)
    gone = {int(drop["later"]): int(drop["earlier"]) for drop in drops}
    sets = [set(oracle.shingles(text, 5)) for text in texts]
    due = found = 0
    missed = []
    for k in range(len(originals)):
        smaller, larger = sorted((k, k + len(originals)), key=lambda i: (len(sets[i]), -i))
        alike = max(
            oracle.jaccard(sets[k], sets[k + len(originals)]), oracle.containment(sets[smaller], sets[larger])
        )
        if alike >= 0.8:
            due += 1
            hit = k in gone or k + len(originals) in gone
            found += hit
            if not hit:
                missed.append(KINDS[k % len(KINDS)])
    right = sum(
        oracle.jaccard(sets[a], sets[b]) >= 0.7 or oracle.containment(sets[a], sets[b]) >= 0.8
        for a, b in gone.items()
    )
    bench.figure(
        "labelled copies found (likeness >= 0.8)",
        found / due,
        ">= 0.98",
        note=f"{due} copies; missed {missed[:5]}",
    )
    bench.figure(
        "removed documents that are truly alike",
        right / max(len(gone), 1),
        ">= 0.99",
        note=f"{len(gone)} removed",
    )
    planted = _templates(rng, pool)
    bench.figure(
        "same template, different content: removed",
        len(_search(planted)),
        "== 0",
        note=f"{TEMPLATES} planted",
    )


def _different(pool: list[str]) -> list[str]:
    """Documents of the pool that are not alike among themselves."""
    gone = {int(drop["later"]) for drop in _search(pool[: 2 * ORIGINALS])}
    return [text for number, text in enumerate(pool[: 2 * ORIGINALS]) if number not in gone]


def _copy(rng: random.Random, kind: str, text: str, pool: list[str]) -> str:
    words = text.split(" ")
    if kind == "substitution":
        for _ in range(max(1, len(words) // 60)):
            words[rng.randrange(len(words))] = "substituted"
        return " ".join(words)
    if kind == "cut off":
        return " ".join(words[: int(len(words) * rng.uniform(0.3, 0.9))])
    if kind == "prefix":
        return "You are reading an archived page. Accept all cookies to go on reading. " + text
    if kind == "white space":
        return text.replace(" ", "  ").replace("\n", "\n\n")
    if kind == "capitals":
        return text.upper()
    return text + "\n\n" + rng.choice(pool)[:600]


def _templates(rng: random.Random, pool: list[str]) -> list[str]:
    head, foot = pool[0][:350], pool[1][:300]
    words = sorted({word for text in pool[:400] for word in text.split() if word.isalpha()})
    return [f"{head}\n{' '.join(rng.choice(words) for _ in range(110))}\n{foot}" for _ in range(TEMPLATES)]


def _search(texts: list[str]) -> list[dict[str, float]]:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "texts.parquet"
        pq.write_table(pa.table({"text": pa.array(texts, pa.large_string())}), path)
        state = save_array(Path(name) / "state.npy", np.zeros(len(texts), np.uint8))
        job = NearJob("near", [SpanFile(str(path))], [len(texts)], state)
        return list(find_near(job, Workspace(Path(name), "bench", "0" * 64), Serial()).drops)
