"""Light classifiers: logistic regression over hashed words, word pairs and shapes. Small, fast, readable, and honest about their precision.

A classifier carries the precision and recall that were measured when it was trained, per language, and the score from which its precision holds. One
whose measured precision is below 0.9 may label, never drop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import orjson

from umsicht.corpus.kernels import features
from umsicht.corpus.kernels.fold import table_arguments
from umsicht.corpus.kernels.spans import Spans, Words, spans_from, words_of
from umsicht.findings import UserError
from umsicht.words import t

BITS = 17
LIMIT = features.MOST_BYTES
"""Bytes of a text that are looked at."""
MAY_DROP = 0.9
EPOCHS = 12
SENTENCE_EPOCHS = 6
RATE = 0.6
PULL = 2e-6
SHORTEST_SENTENCE = 15
"""Bytes; a shorter piece belongs to the sentence after it."""
ROUNDS = 4
"""Times that the sentences which carry a label are chosen anew."""

Unit = Literal["text", "sentence"]


@dataclass(frozen=True)
class Measured:
    """What a threshold does on held-out examples."""

    precision: float
    recall: float
    positives: int
    negatives: int

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "precision": round(self.precision, 4),
            "recall": round(self.recall, 4),
            "f1": round(self.f1, 4),
            "positives": self.positives,
            "negatives": self.negatives,
        }


@dataclass(frozen=True)
class Classifier:
    """Weights of one label, and what is known of it."""

    label: str
    weights: npt.NDArray[np.float32]
    threshold: float = 0.5
    languages: tuple[str, ...] = ()
    """Languages that it was measured on; others are not scored. Empty: all."""
    measured: Mapping[str, Any] = field(default_factory=dict)
    unit: Unit = "text"
    """What is scored: whole texts, or sentences, of which the highest score counts."""
    labels_only: bool = False
    """Measured on real text and found too imprecise to drop, whatever held-out examples like its own say."""

    @property
    def bits(self) -> int:
        """Features are numbers of so many bits."""
        return (len(self.weights) - 1).bit_length() - 1

    @property
    def may_drop(self) -> bool:
        """Measured precision of at least 0.9 in every language, and nothing known against it."""
        if self.labels_only:
            return False
        values = [row["precision"] for row in self.measured.values()]
        return bool(values) and min(values) >= MAY_DROP

    def scores(self, spans: Spans, words: Words | None = None) -> npt.NDArray[np.float32]:
        """Probability of the label for every text. `words` are those of the texts, where they are known."""
        if self.unit == "text":
            return self._scores(spans, words or words_of(spans))
        owners, sentences = sentences_of(spans)
        found = np.zeros(len(spans), np.float32)
        np.maximum.at(found, owners, self._scores(sentences, words_of(sentences)))
        return found

    def _scores(self, spans: Spans, words: Words) -> npt.NDArray[np.float32]:
        margins = np.zeros(len(spans), np.float32)
        if len(spans):
            features.score_many(
                spans.buffer,
                spans.starts,
                spans.ends,
                words.hashes,
                words.offsets,
                *table_arguments(),
                self.bits,
                self.weights,
                LIMIT,
                margins,
            )
        return (1 / (1 + np.exp(-np.clip(margins, -30, 30)))).astype(np.float32)

    def save(self, path: Path) -> None:
        """One small file: half-precision weights and a description."""
        about = {
            "label": self.label,
            "threshold": self.threshold,
            "languages": self.languages,
            "measured": dict(self.measured),
            "unit": self.unit,
            "labels_only": self.labels_only,
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            np.savez_compressed(
                file,
                weights=self.weights.astype(np.float16),
                about=np.frombuffer(orjson.dumps(about, option=orjson.OPT_SORT_KEYS), np.uint8),
            )

    @classmethod
    def load(cls, path: Path) -> Classifier:
        """Read a classifier. Raises UserError for a file that is none."""
        try:
            with np.load(path) as stored:
                about = orjson.loads(stored["about"].tobytes())
                weights = stored["weights"].astype(np.float32)
        except (OSError, ValueError, KeyError) as error:
            raise UserError(
                t("corpus.classifier.unreadable.what", path=path),
                where=str(path),
                why=str(error).split("\n")[0],
                fix=t("corpus.classifier.unreadable.fix"),
            ) from error
        return cls(
            about["label"],
            weights,
            about["threshold"],
            tuple(about["languages"]),
            about["measured"],
            about.get("unit", "text"),
            about.get("labels_only", False),
        )


def preset_names() -> list[str]:
    """Classifiers that come with Umsicht."""
    folder = resources.files("umsicht.corpus.label") / "presets"
    return (
        sorted(entry.name[:-4] for entry in folder.iterdir() if entry.name.endswith(".npz"))
        if folder.is_dir()
        else []
    )


def preset(name: str) -> Classifier:
    """A classifier by preset name or by the path of a file."""
    if name.endswith(".npz"):
        return Classifier.load(Path(name))
    if name not in preset_names():
        raise UserError(
            t("corpus.classifier.unknown.what", name=name),
            fix=t("corpus.classifier.unknown.fix", names=", ".join(preset_names())),
        )
    with resources.as_file(resources.files("umsicht.corpus.label") / "presets" / f"{name}.npz") as path:
        return Classifier.load(path)


def fit(
    texts: Sequence[str],
    labels: Sequence[bool],
    *,
    bits: int = BITS,
    epochs: int = EPOCHS,
    rate: float = RATE,
    pull: float = PULL,
    seed: int = 0,
) -> npt.NDArray[np.float32]:
    """Weights of a classifier; both classes weigh the same in all. The same examples and seed give the same weights."""
    return fit_spans(
        spans_from(list(texts)),
        np.array(labels, bool),
        bits=bits,
        epochs=epochs,
        rate=rate,
        pull=pull,
        seed=seed,
    )


def fit_spans(
    spans: Spans,
    labels: npt.NDArray[np.bool_],
    *,
    bits: int = BITS,
    epochs: int = EPOCHS,
    rate: float = RATE,
    pull: float = PULL,
    seed: int = 0,
) -> npt.NDArray[np.float32]:
    """`fit` on texts that lie in a buffer already."""
    target = np.array(labels, np.float32)
    positives = float(target.sum())
    n = len(target)
    if not 0 < positives < n:
        raise UserError(t("corpus.classifier.one_class.what"), fix=t("corpus.classifier.one_class.fix"))
    weights = np.zeros((1 << bits) + 1, np.float32)
    squares = np.zeros_like(weights)
    rng = np.random.default_rng(seed)
    balance = n / 2 / positives, n / 2 / (n - positives)
    for epoch in range(epochs):
        rates = np.array([[rate / (1 + 0.25 * epoch), pull, *balance]])
        features.train_epoch(
            spans.buffer,
            spans.starts,
            spans.ends,
            *table_arguments(),
            bits,
            target,
            rng.permutation(n),
            LIMIT,
            rates,
            weights,
            squares,
        )
    return weights


def word_features(text: str, bits: int = BITS) -> npt.NDArray[np.int64]:
    """Numbers of the features of a few words: of each, and of each pair of neighbours."""
    spans = spans_from([text])
    words = words_of(spans).hashes
    shapes = np.zeros(2 * len(text) + features.SHAPES, np.uint64)
    out = np.zeros(len(shapes), np.uint32)
    features.numbers(spans.buffer, 0, int(spans.ends[0]), words, bits, shapes, out)
    return out[: max(2 * len(words) - 1, 0)].astype(np.int64)


def sentences_of(spans: Spans) -> tuple[npt.NDArray[np.int64], Spans]:
    """Sentences of every text: the number of their text, and where they are. They end at line ends, and at `.!?` before white space."""
    data = spans.buffer
    space = (data == 32) | (data == 10)
    stop = (data == 46) | (data == 33) | (data == 63)
    ends = np.flatnonzero((stop[:-1] & space[1:]) | (data[:-1] == 10)) + 1
    owners: list[int] = []
    starts: list[int] = []
    stops: list[int] = []
    for number, (first, last) in enumerate(zip(spans.starts.tolist(), spans.ends.tolist(), strict=True)):
        low, high = np.searchsorted(ends, [first + 1, last])
        at = first
        for end in [*ends[low:high].tolist(), last]:
            if end - at >= SHORTEST_SENTENCE or (end == last and at == first):
                owners.append(number)
                starts.append(at)
                stops.append(end)
                at = end
    return np.array(owners, np.int64), Spans(data, np.array(starts, np.int64), np.array(stops, np.int64))


def fit_sentences(texts: Sequence[str], labels: Sequence[bool], *, seed: int = 0) -> npt.NDArray[np.float32]:
    """Weights for sentences where only whole texts are labelled (multiple-instance learning: Andrews, Tsochantaridis and Hofmann 2002).

    No sentence of a text without the label has it; of one with the label at least one does: the one that the last round scored highest.
    """
    spans = spans_from(list(texts))
    owners, sentences = sentences_of(spans)
    carries = np.array(labels, bool)[owners]
    chosen = np.ones(len(owners), bool)
    weights = np.zeros(0, np.float32)
    words = words_of(sentences)
    for _ in range(ROUNDS):
        rows = np.flatnonzero(chosen)
        weights = fit_spans(sentences.take(rows), carries[rows], epochs=SENTENCE_EPOCHS, seed=seed)
        scores = Classifier("", weights).scores(sentences, words)
        best = np.zeros(len(texts), np.float32)
        np.maximum.at(best, owners, scores)
        chosen = ~carries | (scores >= best[owners])
    return weights


def measure(scores: npt.NDArray[np.float32], labels: npt.NDArray[np.bool_], threshold: float) -> Measured:
    """Precision and recall at a threshold. With nothing above it precision counts as 1."""
    above = scores >= threshold
    hits = int((above & labels).sum())
    return Measured(
        hits / int(above.sum()) if above.any() else 1.0,
        hits / max(int(labels.sum()), 1),
        int(labels.sum()),
        int((~labels).sum()),
    )


def threshold_for(scores: npt.NDArray[np.float32], labels: npt.NDArray[np.bool_], precision: float) -> float:
    """The smallest threshold of a grid from 0.1 on at which the precision holds."""
    for threshold in np.arange(0.1, 0.9951, 0.005):
        if measure(scores, labels, float(threshold)).precision >= precision:
            return round(float(threshold), 3)
    return 0.995


def best_f1(scores: npt.NDArray[np.float32], labels: npt.NDArray[np.bool_]) -> float:
    """The threshold with the best F1 (chosen on training or development data, never on the test)."""
    grid = np.arange(0.05, 0.96, 0.01)
    return round(float(grid[int(np.argmax([measure(scores, labels, float(x)).f1 for x in grid]))]), 3)
