"""Training a light classifier from labelled examples: held-out examples decide threshold and published precision."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import orjson

from umsicht.corpus.kernels.spans import spans_from
from umsicht.corpus.label.classifier import Classifier, Unit, fit, fit_sentences, measure, threshold_for
from umsicht.corpus.sources import streams
from umsicht.corpus.sources.unit import dig
from umsicht.findings import UserError
from umsicht.words import t

HELD_OUT = 0.2
FEWEST = 20


@dataclass(frozen=True)
class Example:
    """A text, whether it has the label, and its language (empty: unknown)."""

    text: str
    positive: bool
    language: str = ""


def read_examples(
    path: Path, text_field: str, label_field: str, positive: str, language_field: str
) -> list[Example]:
    """Examples of a JSONL file. Raises UserError where the file cannot be read or a row has no text or label."""
    found = []
    wanted = positive.lower()
    try:
        with streams.open_bytes(str(path)) as stream:
            for number, line in enumerate(stream, 1):
                if not line.strip():
                    continue
                row = orjson.loads(line)
                text, label = dig(row, text_field), dig(row, label_field)
                if not isinstance(text, str) or label is None:
                    raise UserError(
                        t("corpus.classifier.row.what", text=text_field, label=label_field),
                        where=f"{path}:{number}",
                        fix=t("corpus.classifier.row.fix"),
                    )
                value = str(int(label)) if isinstance(label, bool) else str(label).lower()
                language = dig(row, language_field)
                yes = value == wanted or (wanted == "true" and value == "1")
                found.append(Example(text, yes, language if isinstance(language, str) else ""))
    except streams.STREAM_ERRORS as error:
        raise UserError(
            t("corpus.classifier.examples.what", path=path), where=str(path), why=str(error).split("\n")[0]
        ) from error
    return found


def train_classifier(
    label: str,
    examples: Sequence[Example],
    *,
    precision: float = 0.9,
    seed: int = 0,
    unit: Unit = "text",
) -> Classifier:
    """Train on four fifths, set the threshold and measure on the rest. Equal texts never stand on both sides.

    With `unit` "sentence" the label is taken to sit in a sentence or two of a text, and the highest score of a sentence is that of its text.
    """
    different = list({example.text: example for example in examples}.values())
    random.Random(seed).shuffle(different)
    cut = int(len(different) * HELD_OUT)
    held, learn = different[:cut], different[cut:]
    if (
        sum(example.positive for example in held) < FEWEST
        or sum(not example.positive for example in held) < FEWEST
    ):
        raise UserError(
            t("corpus.classifier.few.what", n=FEWEST), fix=t("corpus.classifier.few.fix", n=FEWEST * 10)
        )
    train = fit if unit == "text" else fit_sentences
    weights = train([example.text for example in learn], [example.positive for example in learn], seed=seed)
    made = Classifier(label, weights.astype(np.float16).astype(np.float32), unit=unit)
    scores = made.scores(spans_from([example.text for example in held]))
    truth = np.array([example.positive for example in held], bool)
    threshold = threshold_for(scores, truth, precision)
    languages = sorted({example.language for example in examples if example.language})
    measured = {}
    for language in languages or ["all"]:
        mine = np.array([not languages or example.language == language for example in held], bool)
        measured[language] = measure(scores[mine], truth[mine], threshold).to_dict()
    return Classifier(label, made.weights, threshold, tuple(languages), measured, unit)
