"""Language identification and light classifiers on labelled real text. Offensive text is measured on, never printed."""

from __future__ import annotations

import gzip
import random
import sysconfig
from pathlib import Path

import numpy as np

from bench.common import Bench, data_folder
from bench.corpus.texts import gzip_rows
from umsicht.corpus.kernels.spans import spans_from
from umsicht.corpus.label.classifier import (
    Classifier,
    Unit,
    best_f1,
    fit,
    fit_sentences,
    measure,
    preset,
    preset_names,
)
from umsicht.corpus.label.language import identify

LANGUAGES = ("en", "de", "es", "fr")


def run_language(bench: Bench) -> None:
    """Sentences of 14 languages, whole and cut; Markdown with code; code against prose."""
    folder = data_folder()
    if folder is None:
        bench.figure("language id, sentences", None, ">= 0.99")
        return
    whole, cut, n = 0, 0, 0
    for path in sorted((folder / "ud-pud").glob("*.tsv.gz")):
        language = path.name[:2]
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                text = line.rstrip("\n").split("\t")[1]
                whole += identify(text)[0].partition("-")[0] == language
                cut += identify(text[:40])[0].partition("-")[0] == language
                n += 1
    bench.figure("language id, sentences of 14 languages", whole / n, ">= 0.99", note=f"{n} sentences")
    bench.figure("language id, cut to 40 characters", cut / n, ">= 0.97")
    right, n = 0, 0
    for path in sorted((folder / "fastapi-docs").glob("*.jsonl.gz")):
        language = path.name.partition(".")[0]
        for row in gzip_rows(path):
            found = identify(row["text"])[0]
            right += found == language or (language.startswith("zh") and found.startswith("zh"))
            n += 1
    bench.figure("language id, Markdown with code", right / n, ">= 0.90", note=f"{n} pages")
    code = [
        text[first : first + 1500]
        for text in (
            path.read_text("utf-8", "replace")
            for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
        )
        for first in range(0, len(text), 6000)
    ]
    prose = [row["context"] for path in (folder / "xquad").glob("*.jsonl.gz") for row in gzip_rows(path)]
    found_code = sum(identify(text)[0] == "code" for text in code) / len(code)
    found_prose = sum(identify(text)[0] != "code" for text in prose) / len(prose)
    bench.figure(
        "code against prose, mean of both",
        (found_code + found_prose) / 2,
        ">= 0.95",
        note=f"code {found_code:.3f}, prose {found_prose:.3f}",
    )


def run_classifiers(bench: Bench) -> None:
    """The machinery on public sets (train, threshold on a development part, score on the rest), and what the preset drops by mistake."""
    folder = data_folder()
    if folder is None:
        bench.figure("F1, sms-spam", None, ">= 0.95")
        return
    with gzip.open(folder / "sms-spam" / "sms.tsv.gz", "rt", encoding="utf-8") as file:
        sms = [(text, label == "spam") for label, text in (line.rstrip("\n").split("\t", 1) for line in file)]
    bench.figure("F1, sms-spam", _f1(sms), ">= 0.95")
    ads = [
        (row["text"], bool(row["label"]))
        for name in ("validation", "test")
        for row in gzip_rows(folder / "native-ads" / f"{name}.jsonl.gz")
    ]
    bench.figure("F1, native-ads, sentences (unit: sentence)", _f1(ads, "sentence"), ">= 0.85")
    bench.figure("F1, native-ads, whole texts", _f1(ads), note="the same data scored as whole texts")
    toxic = [
        (row["text"], bool(row["spans"]))
        for name in ("train", "test")
        for row in gzip_rows(folder / "toxic-spans" / f"{name}.jsonl.gz")
    ]
    bench.figure("F1, toxic-spans", _f1(toxic), note="reported only; classes as the set has them")
    ordinary = {language: spans_from(_ordinary(folder, language)) for language in LANGUAGES}
    for name in preset_names():
        known = preset(name)
        for language in LANGUAGES:
            row = known.measured[language]
            bench.figure(
                f"preset {name}, precision {language}",
                row["precision"],
                ">= 0.9" if known.may_drop else "",
                note=f"recall {row['recall']} on unseen sentences{'' if known.may_drop else '; labels only'}",
            )
            texts = ordinary[language]
            false = float((known.scores(texts) >= known.threshold).mean())
            bench.figure(
                f"preset {name}, false drops {language}", false, "<= 0.01", note=f"{len(texts)} texts"
            )
    spam = preset("spam")
    scores = spam.scores(spans_from([text for text, _ in sms]))
    seen = measure(scores, np.array([label for _, label in sms], bool), spam.threshold)
    bench.figure(
        "preset spam on sms-spam, precision", seen.precision, note=f"recall {seen.recall:.3f}; reported only"
    )
    toxic_preset = preset("toxic")
    surge = [
        (row["text"], row["label"] == "Toxic")
        for row in gzip_rows(folder / "toxicity-surge" / "toxicity_en.jsonl.gz")
    ]
    for name, rows in (("toxicity-surge", surge), ("toxic-spans", toxic)):
        truth = np.array([label for _, label in rows], bool)
        seen = measure(
            toxic_preset.scores(spans_from([text for text, _ in rows])), truth, toxic_preset.threshold
        )
        bench.figure(
            f"preset toxic on {name}, precision",
            seen.precision,
            note=f"recall {seen.recall:.3f}; {truth.mean():.0%} of the comments have the label; reported only",
        )


def _f1(rows: list[tuple[str, bool]], unit: Unit = "text") -> float:
    rows = rows[:]
    random.Random(0).shuffle(rows)
    first, second = int(len(rows) * 0.7), int(len(rows) * 0.8)
    learn = fit if unit == "text" else fit_sentences
    weights = learn([text for text, _ in rows[:first]], [label for _, label in rows[:first]])
    made = Classifier("bench", weights, unit=unit)

    def scored(part: list[tuple[str, bool]]) -> tuple[np.ndarray, np.ndarray]:
        return made.scores(spans_from([text for text, _ in part])), np.array(
            [label for _, label in part], bool
        )

    threshold = best_f1(*scored(rows[first:second]))
    return measure(*scored(rows[second:]), threshold).f1


def _ordinary(folder: Path, language: str) -> list[str]:
    texts = []
    for path in sorted((folder / "books").glob(f"{language}-*.txt.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            text = file.read()
        texts += [text[first : first + 2000] for first in range(0, len(text), 2000)]
    if (folder / "xquad" / f"xquad.{language}.jsonl.gz").exists():
        texts += [row["context"] for row in gzip_rows(folder / "xquad" / f"xquad.{language}.jsonl.gz")]
    return texts + [row["text"] for row in gzip_rows(folder / "fastapi-docs" / f"{language}.jsonl.gz")]
