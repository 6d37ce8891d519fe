"""`umsicht corpus classifier`: train the small classifiers that label a corpus, and list those that come with Umsicht."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import cyclopts

from umsicht.cli.output import print_json, print_table
from umsicht.words import t

classifier = cyclopts.App(name="classifier", help=t("corpus.cli.classifier"))


@classifier.command
def train(
    examples: Path,
    *,
    label: str,
    out: Path,
    text_field: str = "text",
    label_field: str = "label",
    positive: str = "1",
    language_field: str = "language",
    precision: float = 0.9,
    unit: Literal["text", "sentence"] = "text",
    json: bool = False,
) -> int:
    """Train a light classifier on labelled JSONL and say how precise it is on examples that it has not seen.

    Parameters
    ----------
    examples
        JSONL file (also .gz, .zst), one example a line.
    label
        What it finds: quality, toxic, spam, …
    out
        File to write (.npz); named under corpus.filter.classifiers.LABEL.path.
    text_field
        Field with the text.
    label_field
        Field with the label.
    positive
        Value of the label field that means yes; true and 1 are the same.
    language_field
        Field with the language, where there is one.
    precision
        Precision that the threshold is set for.
    unit
        What carries the label: the whole text, or a sentence somewhere in it (advertising inside an answer, say).
    json
        Print JSON.
    """
    from umsicht.corpus.label.train import read_examples, train_classifier

    found = read_examples(examples, text_field, label_field, positive, language_field)
    made = train_classifier(label, found, precision=precision, unit=unit)
    made.save(out)
    if json:
        print_json(
            {"label": label, "threshold": made.threshold, "measured": dict(made.measured), "path": str(out)}
        )
        return 0
    print_table(
        [t("corpus.cli.language"), t("corpus.cli.precision"), t("corpus.cli.recall"), "F1"],
        [(name, row["precision"], row["recall"], row["f1"]) for name, row in made.measured.items()],
    )
    print(
        t(
            "corpus.cli.may_drop" if made.may_drop else "corpus.cli.may_label",
            threshold=made.threshold,
            path=out,
        )
    )
    return 0


@classifier.command(name="list")
def list_presets(*, json: bool = False) -> int:
    """The classifiers that come with Umsicht, with their measured precision and recall."""
    from umsicht.corpus.label.classifier import preset, preset_names

    rows = [
        (name, language, row["precision"], row["recall"], preset(name).threshold)
        for name in preset_names()
        for language, row in preset(name).measured.items()
    ]
    if json:
        print_json(
            [
                dict(zip(("label", "language", "precision", "recall", "threshold"), row, strict=True))
                for row in rows
            ]
        )
    else:
        columns = (
            t("corpus.cli.label"),
            t("corpus.cli.language"),
            t("corpus.cli.precision"),
            t("corpus.cli.recall"),
            t("corpus.cli.threshold"),
        )
        print_table(columns, rows)
    return 0
