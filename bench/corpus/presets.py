"""Trains the classifiers that come with Umsicht, from text that these scripts generate and from installed packages.

    python -m bench.corpus.presets [promotional spam boilerplate toxic low-quality] [--check]

Promotional text is generated from the grammars beside this file (`promotional_*.json`), the other labels from `labels_*.json` (see `label_texts`).
Ordinary text is generated from the same grammars (facts, instructions, letters, complaints about the same products) and read out of the starter
packages. Sentences and words are split before anything is generated, so that precision and recall are measured on sentences that the classifier has
never seen, with words of which a fifth is new to it.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench.corpus import label_texts
from umsicht.corpus.kernels.spans import spans_from
from umsicht.corpus.label.classifier import Classifier, fit, measure, threshold_for, word_features
from umsicht.corpus.sources.read import read_unit
from umsicht.corpus.sources.starter import starter_units
from umsicht.corpus.sources.unit import Raw

HERE = Path(__file__).parent
TARGET = Path(__file__).parents[2] / "src" / "umsicht" / "corpus" / "label" / "presets"
LANGUAGES = ("en", "de", "es", "fr")
TRAIN, TEST = 3_000, 600
FEWER = 1_500
"""Training texts of the other presets, by language."""
WANTED_PRECISION = 0.98
LABEL_PRECISION = 0.9
"""Of what only labels: it loses nobody's text, and finds more."""

Grammar = dict[str, list[str]]


def grammar(language: str) -> Grammar:
    """The lists of one language."""
    loaded: Grammar = json.loads((HERE / f"promotional_{language}.json").read_text(encoding="utf-8"))
    return loaded


def halves(full: Grammar, seed: int = 0) -> tuple[Grammar, Grammar]:
    """What to learn from, and what to be measured on: held-out sentences, and words of which a fifth was never seen in training."""
    rng = random.Random(seed)
    learn, held = {}, {}
    for name, entries in full.items():
        shuffled = entries[:]
        rng.shuffle(shuffled)
        cut = max(2, len(shuffled) // 5)
        learn[name] = shuffled[cut:]
        held[name] = shuffled[:cut] if name in ("promotional", "neutral") else shuffled
    return learn, held


def sentence(rng: random.Random, words: Grammar, kind: str) -> str:
    """One sentence; every slot gets a word of its own."""
    text = re.sub(r"\{(\w+)\}", lambda match: rng.choice(words[match[1]]), rng.choice(words[kind]))
    return text[0].upper() + text[1:]


def promotional(rng: random.Random, words: Grammar, ordinary: list[str]) -> str:
    """Mostly promotional; a sentence or two may be ordinary ones."""
    lines = [sentence(rng, words, "promotional") for _ in range(rng.randint(2, 9))]
    for _ in range(rng.randint(0, len(lines) // 2)):
        lines.insert(rng.randint(0, len(lines)), sentence(rng, words, "neutral"))
    if ordinary and rng.random() < 0.25:
        lines.insert(0, rng.choice(ordinary)[:300])
    return rng.choice((" ", " ", "\n", "\n\n")).join(lines)


def neutral(rng: random.Random, words: Grammar) -> str:
    """Ordinary sentences, some of them about products and prices."""
    return rng.choice((" ", "\n")).join(sentence(rng, words, "neutral") for _ in range(rng.randint(1, 10)))


def starter_texts() -> dict[str, list[str]]:
    """Ordinary text of the starter packages, by language (`other` for languages that have no grammar)."""
    found: dict[str, list[str]] = {}
    units, missing = starter_units(
        "starter", ("wiki", "wiktionary", "drama", "api", "dialogue", "speeches", "stdlib"), None
    )
    if missing:
        sys.exit(f"install the starter packages first: {', '.join(missing)}")
    for unit in units:
        for item in read_unit(unit, 8_000_000):
            if isinstance(item, Raw):
                text = item.text.decode("utf-8", "replace") if isinstance(item.text, bytes) else item.text
                language = unit.source.language or item.language
                key = language if language in LANGUAGES else "other"
                found.setdefault(key, []).extend(_cut(text))
    return found


def _cut(text: str) -> Iterator[str]:
    for first in range(0, min(len(text), 20_000), 1_500):
        if len(text[first : first + 1_500]) > 60:
            yield text[first : first + 1_500]


def examples(seed: int = 0) -> tuple[list[str], list[bool], dict[str, tuple[list[str], list[bool]]]]:
    """Training texts and labels, and held-out ones by language."""
    rng = random.Random(seed)
    starter = starter_texts()
    texts: list[str] = []
    labels: list[bool] = []
    held: dict[str, tuple[list[str], list[bool]]] = {}
    for language in LANGUAGES:
        learn, test = halves(grammar(language))
        ordinary = starter[language][:]
        rng.shuffle(ordinary)
        kept, shown = ordinary[: TEST // 2], ordinary[TEST // 2 :][: 2 * TRAIN]
        texts += [promotional(rng, learn, shown) for _ in range(TRAIN)]
        labels += [True] * TRAIN
        texts += [neutral(rng, learn) for _ in range(TRAIN)] + shown
        labels += [False] * (TRAIN + len(shown))
        good = [neutral(rng, test) for _ in range(TEST // 2)] + kept
        held[language] = (
            [promotional(rng, test, kept) for _ in range(TEST)] + good,
            [True] * TEST + [False] * len(good),
        )
    others = starter["other"][:]
    rng.shuffle(others)
    texts += others[:TRAIN]
    labels += [False] * len(others[:TRAIN])
    return texts, labels, held


def train() -> Classifier:
    """The promotional preset, with what was measured."""
    texts, labels, held = examples()
    return _measured("promotional", fit(texts, labels, epochs=8, rate=0.3, pull=1e-5), held)


def trained(name: str, starter: dict[str, list[str]]) -> Classifier:
    """One of the other presets, with what was measured on unseen sentences and unseen ordinary text."""
    rng = random.Random(name)
    texts: list[str] = []
    labels: list[bool] = []
    held: dict[str, tuple[list[str], list[bool]]] = {}
    fewer = 3 * FEWER if name == "toxic" else FEWER
    for language in LANGUAGES:
        made = label_texts.maker(name, language, starter[language])
        ordinary = starter[language][:]
        rng.shuffle(ordinary)
        kept, shown = ordinary[:TEST], ordinary[TEST:][: 2 * fewer]
        plain = [neutral(rng, halves(grammar(language))[0]) for _ in range(FEWER // 2)]
        unlike: list[str] = []
        if name == "toxic":
            harmless = label_texts.maker(name, language, starter[language], harmless=True)
            civil = label_texts.civil_maker(language, starter[language])
            positive, twins = _pairs(rng, made, harmless, fewer)
            plain += twins + [civil(rng, False) for _ in range(fewer)]
            unlike = [civil(rng, True) for _ in range(TEST)]
        else:
            positive = [made(rng, False) for _ in range(fewer)]
        texts += positive + shown + plain
        labels += [True] * fewer + [False] * (len(shown) + len(plain))
        good = kept + unlike + [neutral(rng, halves(grammar(language))[1]) for _ in range(TEST // 2)]
        held[language] = (
            [made(rng, True) for _ in range(TEST)] + good,
            [True] * TEST + [False] * len(good),
        )
    others = starter["other"][:]
    rng.shuffle(others)
    texts += others[:FEWER]
    labels += [False] * len(others[:FEWER])
    if name == "toxic":
        listed = [
            word for language in LANGUAGES for word in label_texts.bad_words(language, starter[language])
        ]
        return _measured(name, _of_words(texts, labels, listed), held)
    return _measured(name, fit(texts, labels, epochs=6, rate=0.3, pull=1e-5, bits=16), held)


OTHERS = 0.25
"""How much everything but the listed words counts: how people talk who use them was invented here, the words were not."""
LOUD = 0.98
"""Share of the training texts without the label that score below a half."""


def _of_words(texts: list[str], labels: list[bool], listed: list[str]) -> np.ndarray:
    """Weights that rest on listed words."""
    weights = fit(texts, labels, epochs=12, rate=1.0, pull=1e-6, bits=17)
    found = np.zeros(len(weights), bool)
    for word in listed:
        found[word_features(word, 17)] = True
    weights[~found] *= OTHERS
    weights[-1] = 0
    plain = [text for text, label in zip(texts, labels, strict=True) if not label]
    scores = Classifier("toxic", weights).scores(spans_from(plain)).astype(np.float64)
    weights[-1] = -np.quantile(np.log(scores / (1 - scores)), LOUD)
    return weights


def _pairs(
    rng: random.Random, made: label_texts.Maker, harmless: label_texts.Maker, n: int, *, held: bool = False
) -> tuple[list[str], list[str]]:
    """Texts with the label, and as many that differ in its words alone."""
    pairs = []
    for _ in range(n):
        state = rng.getstate()
        text = made(rng, held)
        rng.setstate(state)
        pairs.append((text, harmless(rng, held)))
    return [text for text, _ in pairs], [twin for _, twin in pairs]


def _measured(name: str, weights: np.ndarray, held: dict[str, tuple[list[str], list[bool]]]) -> Classifier:
    weights[np.abs(weights) < 0.02] = 0
    plain = Classifier(name, weights.astype(np.float16).astype(np.float32))
    scores = {language: plain.scores(spans_from(found)) for language, (found, _) in held.items()}
    truth = {language: np.array(found, bool) for language, (_, found) in held.items()}
    wanted = LABEL_PRECISION if name == "toxic" else WANTED_PRECISION
    threshold = max(threshold_for(scores[lang], truth[lang], wanted) for lang in held)
    measured = {lang: measure(scores[lang], truth[lang], threshold).to_dict() for lang in held}
    return Classifier(
        name, plain.weights, threshold, LANGUAGES, measured, labels_only=name in label_texts.LABELS_ONLY
    )


def main() -> None:
    """Train, print, write; with --check compare with what is committed."""
    named = [name for name in sys.argv[1:] if not name.startswith("-")] or [
        "promotional",
        *label_texts.SHIPPED,
    ]
    starter = starter_texts() if set(named) != {"promotional"} else {}
    same = True
    for name in named:
        made = train() if name == "promotional" else trained(name, starter)
        for language, row in made.measured.items():
            print(f"{name} {language}: threshold {made.threshold} {row}", flush=True)
        path = TARGET / f"{name}.npz"
        if "--check" in sys.argv:
            equal = np.array_equal(Classifier.load(path).weights, made.weights)
            print("same weights as committed" if equal else "weights differ from the committed ones")
            same &= equal
        else:
            made.save(path)
            print(f"wrote {path.name}, {path.stat().st_size / 1e3:.0f} kB")
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
