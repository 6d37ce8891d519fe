"""Labels on real text: languages, code, rules, notices, redaction, classifiers, and what may drop."""

from __future__ import annotations

import gzip
import json
import os
import random
from pathlib import Path

import numpy as np
import pytest

from umsicht.corpus.kernels import oracle
from umsicht.corpus.kernels.spans import spans_from
from umsicht.corpus.label.batch import check_filters
from umsicht.corpus.label.classifier import Classifier, fit, fit_sentences, measure, preset, preset_names
from umsicht.corpus.label.code import has_shape, is_markdown
from umsicht.corpus.label.heuristics import first_rule, measure_texts, rule_names
from umsicht.corpus.label.language import identify
from umsicht.corpus.label.notices import has_notice
from umsicht.corpus.label.train import Example, train_classifier
from umsicht.corpus.redact import redact
from umsicht.findings import UserError
from umsicht.recipe.corpus import FilterSettings


def _data() -> Path:
    folder = os.environ.get("UMSICHT_TEST_DATA", "")
    if not folder:
        pytest.skip("UMSICHT_TEST_DATA is not set")
    return Path(folder)


def _rows(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Der Fluss entspringt in den Bergen und fließt nach Osten.", "de"),
        ("def f(x):\n    return x + 1\n\nclass A:\n    def g(self):\n        self.x = f(2)\n", "code"),
        (
            "# Titel\n\nDas ist ein Text über Python.\n\n```python\nimport os\nprint(os.getcwd())\n```\n\nUnd hier geht er weiter.",
            "de",
        ),
        ("это короткий текст на русском языке", "ru"),
        ("我们今天去学校学习", "zh"),
        ("我們今天去學校學習", "zh-hant"),
        ("今日は学校へ行きます", "ja"),
        ("12345 !!! ---", "und"),
        ("", "und"),
    ],
)
def test_language(text: str, language: str) -> None:
    assert identify(text)[0] == language


def test_a_book_with_a_licence_in_another_language_before_it_is_in_its_own() -> None:
    licence = (
        "This eBook is for the use of anyone anywhere at no cost and with almost no restrictions whatsoever.\n"
        * 20
    )
    book = "Als Gregor Samsa eines Morgens aus unruhigen Träumen erwachte, fand er sich verwandelt.\n" * 400
    assert identify(licence + book)[0] == "de"


def test_language_of_parallel_sentences() -> None:
    right = n = 0
    for path in sorted((_data() / "ud-pud").glob("*.tsv.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in list(file)[:60]:
                text = line.rstrip("\n").split("\t")[1]
                right += identify(text)[0].partition("-")[0] == path.name[:2]
                n += 1
    assert right / n >= 0.99


@pytest.mark.parametrize("language", ["en", "de", "es", "fr"])
def test_presets_drop_no_ordinary_text(language: str) -> None:
    folder = _data()
    texts = [row["text"] for row in _rows(folder / "fastapi-docs" / f"{language}.jsonl.gz")]
    questions = folder / "xquad" / f"xquad.{language}.jsonl.gz"
    texts += [row["context"] for row in _rows(questions)] if questions.exists() else []
    for path in sorted((folder / "books").glob(f"{language}-*.txt.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            text = file.read()
        texts += [text[first : first + 2000] for first in range(0, len(text), 2000)]
    for name in preset_names():
        known = preset(name)
        assert (known.scores(spans_from(texts)) >= known.threshold).mean() <= 0.01, name


@pytest.mark.parametrize(
    "text",
    [
        "Order now and get 20% off your first order! Discover our amazing new collection. Limited offer, buy today while stocks last!",
        "Jetzt bestellen und 20 % Rabatt sichern! Entdecken Sie unsere einzigartige Kollektion. Nur solange der Vorrat reicht!",
        "¡Compra ya y llévate un regalo con cada compra! Descubre la colección más exclusiva. ¡Últimas unidades, solo hoy!",
        "Commandez maintenant et recevez un cadeau pour tout achat ! Découvrez la collection exclusive. Derniers exemplaires, vite !",
    ],
)
def test_advertising_is_recognised(text: str) -> None:
    known = preset("promotional")
    assert known.scores(spans_from([text]))[0] >= known.threshold


@pytest.mark.parametrize(
    "text",
    [
        "You are so wrong about this, and I hate your idea. Nobody wants it, honestly!",
        "Der Angreifer tötete zwei Menschen; das Gericht verurteilte ihn wegen Mordes.",
        "El paciente murió de cáncer; el tumor de la mama había crecido.",
        "Tu as tort, et ton film est affreux. Personne ne veut le voir !",
    ],
)
def test_disagreement_illness_and_crime_are_not_toxic(text: str) -> None:
    known = preset("toxic")
    assert known.scores(spans_from([text]))[0] < known.threshold


def test_a_toxic_text_is_found_by_its_words() -> None:
    """Precision and recall on sentences that training never saw; the words themselves do not stand in this repository."""
    rows = preset("toxic").measured
    assert set(rows) == {"en", "de", "es", "fr"}
    assert all(row["precision"] >= 0.9 and row["recall"] >= 0.4 for row in rows.values())


def test_training_is_repeatable_and_finds_what_it_learned() -> None:
    rng = random.Random(0)
    good = [" ".join(rng.choice(["stone", "river", "hill", "tree"]) for _ in range(20)) for _ in range(300)]
    bad = [" ".join(rng.choice(["stone", "river", "casino", "bonus"]) for _ in range(20)) for _ in range(300)]
    texts, labels = good + bad, [False] * 300 + [True] * 300
    weights = fit(texts, labels)
    assert np.array_equal(weights, fit(texts, labels))
    found = measure(Classifier("x", weights).scores(spans_from(texts)), np.array(labels), 0.5)
    assert found.f1 > 0.99
    made = train_classifier("casino", [Example(t, y, "en") for t, y in zip(texts, labels, strict=True)])
    assert made.may_drop and made.languages == ("en",)
    with pytest.raises(UserError):
        fit(good, [False] * 300)


def test_a_label_of_one_sentence_is_learned_from_labels_of_whole_texts(tmp_path: Path) -> None:
    """Each text with the label holds one telling sentence among nine that tell nothing; the classifier scores sentences and takes the highest."""
    rng = random.Random(0)
    plain = ["stone", "river", "hill", "tree", "cloud", "field"]
    texts, labels = [], []
    for k in range(400):
        lines = [" ".join(rng.choice(plain) for _ in range(9)) + "." for _ in range(9)]
        if k % 2:
            lines.insert(
                rng.randint(0, 9), f"Try {rng.choice(plain)} {rng.choice(['casino', 'bonus'])} {k} today."
            )
        texts.append(" ".join(lines))
        labels.append(bool(k % 2))
    made = Classifier("x", fit_sentences(texts[:300], labels[:300]), unit="sentence")
    made.save(tmp_path / "x.npz")
    again = Classifier.load(tmp_path / "x.npz")
    scores = again.scores(spans_from([*texts[300:], ""]))
    assert measure(scores[:-1], np.array(labels[300:]), 0.5).f1 > 0.97
    assert scores == pytest.approx(made.scores(spans_from([*texts[300:], ""])), abs=1e-3)


def test_saved_classifiers_come_back(tmp_path: Path) -> None:
    known = preset("promotional")
    known.save(tmp_path / "again.npz")
    again = Classifier.load(tmp_path / "again.npz")
    assert np.array_equal(known.weights, again.weights) and known.measured == again.measured
    (tmp_path / "bad.npz").write_bytes(b"no")
    with pytest.raises(UserError):
        Classifier.load(tmp_path / "bad.npz")
    with pytest.raises(UserError):
        preset("nonsense")
    assert "promotional" in preset_names()


def test_an_imprecise_classifier_may_not_drop(tmp_path: Path) -> None:
    weak = Classifier(
        "weak", np.zeros(2**17 + 1, np.float32), 0.5, ("en",), {"en": {"precision": 0.7, "recall": 0.9}}
    )
    weak.save(tmp_path / "weak.npz")
    rule = {"action": "drop", "path": str(tmp_path / "weak.npz")}
    with pytest.raises(UserError, match="weak"):
        check_filters(FilterSettings.model_validate({"classifiers": {"weak": rule}}))
    rule["action"] = "label"
    check_filters(FilterSettings.model_validate({"classifiers": {"weak": rule}}))


def test_a_preset_that_failed_on_real_text_may_not_drop() -> None:
    assert not preset("spam").may_drop and not preset("toxic").may_drop and preset("boilerplate").may_drop
    with pytest.raises(UserError, match="spam"):
        check_filters(FilterSettings.model_validate({"classifiers": {"spam": {"action": "drop"}}}))
    check_filters(
        FilterSettings.model_validate({"classifiers": {"spam": {}, "boilerplate": {"action": "drop"}}})
    )


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("too short", "gopher-few-words"),
        ("The same line again and again here.\n" * 30, "gopher-repeated-lines"),
        ("\n".join(f"- position number {k} within another list" for k in range(20)), "gopher-bullets"),
        (" ".join(f"word{k} stands quietly beside another" for k in range(40)), ""),
        (
            "天地玄黄宇宙洪荒日月盈昃辰宿列张寒来暑往秋收冬藏闰余成岁律吕调阳云腾致雨露结为霜金生丽水玉出昆冈剑号巨阙珠称夜光",
            "",
        ),
    ],
)
def test_first_rule(text: str, rule: str) -> None:
    assert rule_names(first_rule(measure_texts(spans_from([text])))) == [rule]


@pytest.mark.parametrize(
    "text", ["© 2019 Some Press. All rights reserved.", "Alle Rechte vorbehalten.", "Copyright (c) 2001 X"]
)
def test_notices(text: str) -> None:
    assert has_notice(f"Words before.\n{text}\nWords after.")
    assert not has_notice("The rights of all people are equal; copyright law is old.")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("write to a.b+c@ex-ample.co.uk now", "write to <email> now"),
        ("call +49 30 1234567 or (555) 123-4567", "call <phone> or <phone>"),
        ("host 8.8.8.8 and 192.168.0.1", "host <ip> and 192.168.0.1"),
        ("key ghp_" + "a" * 36 + " end", "key <key> end"),
        (
            "2024-01-02, 3.141592653, 1,234,567 and v1.2.3.4",
            "2024-01-02, 3.141592653, 1,234,567 and v1.2.3.4",
        ),
        ("from a@b import c; x @ y; @property", "from a@b import c; x @ y; @property"),
    ],
)
def test_redaction(text: str, expected: str) -> None:
    assert redact(text, ("email", "phone", "ip", "key"))[0] == expected
    assert redact(text, ())[0] == text


def test_the_shape_of_code_is_the_oracles() -> None:
    rng = random.Random(1)
    words = """def class if x foo.bar ( ) [ ] { } ; : , = == += := <<= # #include @a @a.b(c) // /* -- 'a' "k" . -> ! é else end
    SELECT fi _a 9 ~ ` <!-- <?php #! */ () (a,b) ... ## ](u) ``` {#x}"""
    parts = [*words.split(), " ", "  ", "\t", "\u00a0", "\x1c"]
    lines = ["".join(rng.choices(parts, k=rng.randint(1, 7))) for _ in range(20_000)]
    shaped = [line for line in lines if line.strip()]
    assert [has_shape(line) for line in shaped] == [bool(oracle.CODE_LINE.match(line)) for line in shaped]
    texts = ["\n".join(lines[k : k + 5]) for k in range(0, len(lines), 5)]
    assert [is_markdown(text) for text in texts] == [bool(oracle.MARKDOWN.search(text)) for text in texts]
