"""Near-duplicates: labelled copies go, everything else stays, and the way the work is cut changes nothing."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from umsicht.corpus.document import write_table
from umsicht.corpus.engine import Serial
from umsicht.corpus.index import save_array
from umsicht.corpus.kernels import oracle
from umsicht.corpus.near import NearJob, NearResult, find_near
from umsicht.corpus.near.tasks import GONE, STAYS, VALIDATION, SpanFile
from umsicht.corpus.work import Workspace

ALPHABETS = {
    "latin": [
        "the",
        "quick",
        "brown",
        "fox",
        "jumps",
        "over",
        "lazy",
        "dog",
        "while",
        "seven",
        "wizards",
        "brew",
        "potent",
        "mixture",
        "inside",
        "quiet",
        "chamber",
    ],
    "german": [
        "über",
        "straße",
        "größe",
        "müde",
        "wälder",
        "hören",
        "schön",
        "füße",
        "grüßen",
        "äpfel",
        "öffnen",
        "zürich",
        "maß",
        "bäume",
        "fröhlich",
        "süß",
    ],
    "cyrillic": [
        "быстрая",
        "лиса",
        "прыгает",
        "через",
        "ленивую",
        "собаку",
        "пока",
        "семь",
        "волшебников",
        "варят",
        "зелье",
        "внутри",
        "тихой",
        "комнаты",
    ],
    "greek": [
        "γρήγορη",
        "αλεπού",
        "πηδά",
        "πάνω",
        "από",
        "τεμπέλικο",
        "σκύλο",
        "ενώ",
        "επτά",
        "μάγοι",
        "φτιάχνουν",
        "φίλτρο",
        "μέσα",
        "ήσυχο",
        "δωμάτιο",
    ],
    "turkish": [
        "ışık",
        "şişe",
        "ağaç",
        "ıslak",
        "içinde",
        "güneş",
        "ördek",
        "yılan",
        "çiçek",
        "ılık",
        "iğne",
        "üzüm",
        "şehir",
        "kapı",
        "dağ",
        "ırmak",
    ],
    "han": list("天地玄黄宇宙洪荒日月盈昃辰宿列张寒来暑往秋收冬藏闰余成岁律吕调阳云腾致雨露结为霜"),
}


def text_of(rng: random.Random, alphabet: str, n: int) -> str:
    words = ALPHABETS[alphabet]
    made = [
        rng.choice(words) + (str(rng.randint(0, 99)) if alphabet != "han" and rng.random() < 0.3 else "")
        for _ in range(n)
    ]
    return ("" if alphabet == "han" else " ").join(made)


def search(
    folder: Path, parts: list[list[str]], state: npt.NDArray[np.uint8] | None = None, **options: int
) -> NearResult:
    files = []
    for number, texts in enumerate(parts):
        path = folder / f"{number}.parquet"
        write_table(pa.table({"text": pa.array(texts, pa.large_string())}), path)
        files.append(SpanFile(str(path)))
    counts = [len(texts) for texts in parts]
    if state is None:
        state = np.full(sum(counts), STAYS, np.uint8)
    job = NearJob("near", files, counts, save_array(folder / "state.npy", state), **options)  # type: ignore[arg-type]  # only integers are given
    return find_near(job, Workspace(folder, "t", "0" * 64), Serial())


COPIES: dict[str, Callable[[random.Random, str, str], str]] = {
    "white space": lambda rng, t, a: t.replace(" ", "  \n") if " " in t else "\n".join(t),
    "capitals": lambda rng, t, a: t.upper(),
    "cut off": lambda rng, t, a: t[: int(len(t) * 0.6)],
    "cut short": lambda rng, t, a: t[int(len(t) * 0.35) : int(len(t) * 0.85)],
    "prefixed": lambda rng, t, a: text_of(rng, a, 12) + ". " + t,
    "two words changed": lambda rng, t, a: t[:80] + "zzz" + t[80:300] + "qqq" + t[300:],
}


@pytest.mark.parametrize("alphabet", ALPHABETS)
def test_copies_go_and_originals_stay(tmp_path: Path, alphabet: str) -> None:
    rng = random.Random(alphabet)
    originals = [text_of(rng, alphabet, 160) for _ in range(36)]
    kinds = list(COPIES)
    copies = [COPIES[kinds[k % len(kinds)]](rng, text, alphabet) for k, text in enumerate(originals)]
    found = search(tmp_path, [originals, copies])
    sets = [set(oracle.shingles(text, 5)) for text in originals + copies]
    pairs = {int(drop["later"]): int(drop["earlier"]) for drop in found.drops}
    for later, earlier in pairs.items():
        alike = oracle.jaccard(sets[later], sets[earlier]) >= 0.7
        assert alike or oracle.containment(sets[later], sets[earlier]) >= 0.8
        assert earlier not in pairs
    for k in range(36):
        smaller, larger = sorted((k, k + 36), key=lambda i: len(sets[i]))
        alike = oracle.jaccard(sets[smaller], sets[larger]) >= 0.8
        if alike or oracle.containment(sets[smaller], sets[larger]) >= 0.85:
            assert k in pairs or k + 36 in pairs, (alphabet, kinds[k % len(kinds)])


def test_one_template_with_different_content_stays(tmp_path: Path) -> None:
    rng = random.Random(3)
    template = text_of(rng, "latin", 60)
    texts = [f"{template} {text_of(rng, 'latin', 70)} {template[:150]}" for _ in range(1500)]
    assert len(search(tmp_path, [texts]).drops) == 0


def test_two_languages_of_one_text_stay(tmp_path: Path) -> None:
    rng = random.Random(4)
    assert len(search(tmp_path, [[text_of(rng, name, 100) for name in ALPHABETS]]).drops) == 0


def test_cut_and_passes_change_nothing(tmp_path: Path) -> None:
    rng = random.Random(5)
    texts = [text_of(rng, "latin", rng.randint(3, 120)) for _ in range(150)]
    texts += [text[: rng.randint(40, len(text))] for text in texts if len(text) > 60]
    results = []
    for name, cut, memory in (
        ("one", [len(texts)], 10**9),
        ("many", [7, 47, 48, len(texts)], 10**9),
        ("passes", [60, len(texts)], 30_000),
    ):
        folder = tmp_path / name
        folder.mkdir()
        parts = [texts[a:b] for a, b in zip([0, *cut], cut, strict=False)]
        results.append(search(folder, parts, memory_bytes=memory).drops.tolist())
    assert results[0] and results[0] == results[1] == results[2]


def test_validation_texts_are_kept_and_what_is_like_them_goes(tmp_path: Path) -> None:
    rng = random.Random(6)
    short = text_of(rng, "latin", 60)
    long = short + " " + text_of(rng, "latin", 200)
    gone = text_of(rng, "latin", 90)
    state = np.array([VALIDATION, STAYS, GONE, STAYS], np.uint8)
    drops = search(tmp_path, [[short, long, gone, gone]], state).drops
    assert drops["later"].tolist() == [1], (
        "the longer training text holds the validation text; text 2 is gone already"
    )


def test_a_large_cluster_leaves_one(tmp_path: Path) -> None:
    rng = random.Random(7)
    base = text_of(rng, "latin", 150)
    texts = [base + f" {k}" for k in range(300)]
    drops = search(tmp_path, [texts]).drops
    assert len(drops) == 299 and len(set(drops["earlier"].tolist())) == 1
