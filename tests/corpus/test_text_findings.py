"""What a source is told about its text: damage, chats, walls, tables, other languages, undertones; and that healthy text is told nothing."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import string
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from umsicht.corpus import CorpusInputs, build
from umsicht.corpus.kernels import oracle
from umsicht.corpus.kernels.marks import MARKS, find_marks, mark_bytes, mark_names
from umsicht.corpus.kernels.spans import spans_from, words_of
from umsicht.corpus.label.heuristics import first_rule, measure_texts, rule_names
from umsicht.corpus.label.phrases import BLOCK, CHATBOT, EMPTY, phrases_in
from umsicht.corpus.label.sample import same_language
from umsicht.recipe.corpus import CorpusSettings
from umsicht.record import Store

NOUNS = [
    "river",
    "valley",
    "teacher",
    "harbour",
    "winter",
    "engine",
    "letter",
    "garden",
    "village",
    "captain",
    "music",
    "bridge",
    "window",
    "market",
    "forest",
]
VERBS = [
    "watched",
    "carried",
    "followed",
    "repaired",
    "described",
    "painted",
    "remembered",
    "crossed",
    "measured",
    "answered",
]


def story(rng: random.Random, n: int = 9) -> str:
    """Plain sentences that nobody has written before."""
    return " ".join(
        f"The {rng.choice(NOUNS)} near the old {rng.choice(NOUNS)} {rng.choice(VERBS)} a {rng.choice(NOUNS)} "
        f"because {rng.choice(NOUNS)} number {rng.randrange(10**6)} had {rng.choice(VERBS)} it, and nobody in the {rng.choice(NOUNS)} knew."
        for _ in range(n)
    )


def marked(text: str) -> dict[str, float]:
    spans = spans_from([text])
    out = np.zeros((1, len(MARKS)), np.float32)
    find_marks(spans.buffer, spans.starts, spans.ends, mark_bytes(), *mark_names(), out)
    return dict(zip(MARKS, out[0].tolist(), strict=True))


def test_marks_are_the_oracles() -> None:
    rng = random.Random(5)
    parts = [
        *(
            "&amp;",
            "&",
            "&#39;",
            "&quot",
            ";",
            "<p>",
            "</div>",
            "<b class='x'>",
            "<",
            ">",
            "<x>",
            "<|im_end|>",
            "<unk>",
            "<|",
            "|>",
        ),
        *(
            "\\n",
            "\\",
            "\\nabla",
            "\\u00e4",
            "\\u00zz",
            "n",
            "ni?o",
            "?",
            "a?b=c",
            "\ufffd",
            "Ã©",
            "â€™",
            "é",
            "[INST]",
            "[/INST]",
            "[",
        ),
        *("A1b2" * 20, "letters" * 12, "7" * 70, "word", " ", "\n", ".", "-", "-\n", "ä"),
    ]
    for _ in range(3_000):
        text = "".join(rng.choices(parts, k=rng.randint(1, 12)))
        assert marked(text) == oracle.marks(text), text


def test_phrases_are_found_in_any_case_and_only_whole() -> None:
    texts = [
        "He said: “As an AI language model, I cannot…”",
        "ALS KI-SPRACHMODELL habe ich keine Meinung.",
        "We use cookies to improve your visit.",
        "Lorem ipsum dolor sit amet, consectetur",
        "An AI language model is trained on text; cookies are used to keep a session.",
        "",
    ]
    assert phrases_in(words_of(spans_from(texts))).tolist() == [CHATBOT, CHATBOT, BLOCK, EMPTY, 0, 0]


@pytest.mark.parametrize(
    ("spoil", "rule"),
    [
        (lambda text: text.replace("e", "\ufffd", 20), "broken-characters"),
        (lambda text: re.sub("ea|ar", "?r", text), "broken-characters"),
        (lambda text: text.replace("and", "&amp;amp;"), "escaped-text"),
        (lambda text: text.replace(". ", ".\\n\\n"), "escaped-text"),
        (lambda text: "<p>" + text.replace(", ", ",<br/> ") + "</p>", "markup-left"),
        (lambda text: re.sub("(.{50}[a-z])(?=[a-z])", r"\1-\n", text), "divided-words"),
        (lambda text: text + "<|endoftext|>", "control-strings"),
        (lambda text: text + " " + "9fA3+/zQ" * 60, "encoded-data"),
        (lambda text: "Certainly! As an AI language model, I can help. " + text, "chatbot-phrase"),
        (lambda text: "Checking your browser before accessing the site. Ray ID 81.", "blocked-page"),
        (lambda text: "Lorem ipsum dolor sit amet, consectetur adipiscing elit.", "placeholder"),
        (lambda text: text, ""),
    ],
)
def test_a_spoilt_text_gets_the_rule_that_says_how(spoil: Callable[[str], str], rule: str) -> None:
    text = spoil(story(random.Random(3)))
    assert rule_names(first_rule(measure_texts(spans_from([text])))) == [rule]


def test_code_is_told_by_its_lines_alone() -> None:
    written = "\n".join(f"def step_{k}(a, b):\n    return a * {k} + b  # <b>\n" for k in range(40))
    minified = ";".join(f"var a{k}=function(b){{return b*{k}}}" for k in range(200))
    spans = spans_from([written, minified])
    assert rule_names(first_rule(measure_texts(spans), np.array([True, True]))) == ["", "code-long-lines"]


def test_languages_that_are_taken_for_each_other_are_no_finding() -> None:
    assert same_language("zh-hant", "zh") and same_language("en", "en-gb") and same_language("da", "no")
    assert not same_language("en", "de")


def found(tmp_path: Path, sources: dict[str, list[dict[str, str]]], **more: object) -> dict[str, set[str]]:
    """Findings by source, of a build from JSON lines."""
    listed: list[dict[str, object]] = []
    for name, rows in sources.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        listed.append({"name": name, "path": f"{name}.jsonl", "domain": name, "licence": "CC0-1.0", **more})
    settings = CorpusSettings.model_validate({"sources": listed})
    report = build(settings, CorpusInputs(Store(tmp_path / "artifacts"), root=tmp_path)).report
    by_source: dict[str, set[str]] = {name: set() for name in sources}
    for finding in report["findings"]:
        if finding["location"] in by_source:
            by_source[finding["location"]].add(finding["id"].removeprefix("CORPUS/"))
    return by_source


def test_every_kind_of_bad_source_is_named_and_a_good_one_is_not(tmp_path: Path) -> None:
    rng = random.Random(11)
    stories = [story(rng) for _ in range(200)]
    letters = string.ascii_lowercase
    adverts = (
        "Our readers can now get the {0} with an exclusive discount of {1} percent, but only until Sunday. "
        "Thousands of happy customers already trust it, and with the free trial you can discover why the {0} is their favourite. "
        "Order today and enjoy free delivery with our money-back guarantee."
    )
    wall = "Please enable JavaScript and cookies to continue. Ray ID {}."
    sources = {
        "good": stories[:40],
        "glosses": [text.replace(".", ";").rstrip("; ") for text in stories[150:170]],
        "refusing": [f"{text} As an AI language model, I cannot say more." for text in stories[40:60]]
        + stories[60:80],
        "walls": [wall.format(rng.randrange(10**9)) for _ in range(10)] + stories[80:100],
        "mash": [
            " ".join("".join(rng.choices(letters, k=rng.randint(3, 11))) for _ in range(80))
            for _ in range(20)
        ],
        "tables": [
            "\n".join(f"{rng.random():.4f}\t{rng.random():.4f}" for _ in range(60)) for _ in range(20)
        ],
        "cut": [text[: 700 + k] for k, text in enumerate(stories[100:130]) if text[699 + k].isalpha()],
        "numbers": [f"{rng.randrange(10**30)} {k}" for k in range(120)],
        "undertone": stories[130:150]
        + [f"{story(rng, 2)} {adverts.format(rng.choice(NOUNS), k)}" for k in range(20)],
    }
    named = found(tmp_path, {name: [{"text": text} for text in texts] for name, texts in sources.items()})
    assert named.pop("good") == named.pop("glosses") == set()
    expected = {
        "refusing": "chat-remains",
        "walls": "pages-without-text",
        "mash": "low-quality-text",
        "tables": "little-prose",
        "cut": "cut-texts",
        "numbers": "tiny-documents",
        "undertone": "promotional-traces",
    }
    assert {name: expected[name] in findings for name, findings in named.items()} == dict.fromkeys(
        expected, True
    )


def test_a_source_in_another_language_than_declared_and_its_rows_licences_are_named(tmp_path: Path) -> None:
    rng = random.Random(2)
    rows = [{"text": story(rng), "licence": "CC-BY-NC-4.0" if k % 3 else "unknown"} for k in range(20)]
    named = found(tmp_path, {"wrong": rows}, language="de", licence_field="licence")
    assert named["wrong"] >= {"other-language", "restricted-licences", "unknown-licence"}
    assert "other-language" not in found(tmp_path, {"right": rows}, language="en")["right"]


def test_a_source_that_is_mostly_repetition_is_named(tmp_path: Path) -> None:
    rng = random.Random(4)
    book = [story(rng, 6) for _ in range(12)]
    editions = [
        "\n\n".join([f"Edition {k}. {story(rng, 2)}", *rng.sample(book, 8), story(rng, 8), story(rng, 8)])
        for k in range(12)
    ]
    named = found(tmp_path, {"book": [{"text": text} for text in editions]})
    assert "mostly-repeated" in named["book"]


def test_books_encyclopedia_and_documentation_are_told_nothing(tmp_path: Path) -> None:
    folder = os.environ.get("UMSICHT_TEST_DATA", "")
    if not folder:
        pytest.skip("UMSICHT_TEST_DATA is not set")
    sources: dict[str, list[dict[str, str]]] = {}
    for language in ("en", "de", "zh"):
        with gzip.open(f"{folder}/xquad/xquad.{language}.jsonl.gz", "rt", encoding="utf-8") as file:
            sources[f"wiki-{language}"] = [{"text": json.loads(line)["context"]} for line in file][:120]
        with gzip.open(f"{folder}/fastapi-docs/{language}.jsonl.gz", "rt", encoding="utf-8") as file:
            sources[f"docs-{language}"] = [{"text": json.loads(line)["text"]} for line in file][:80]
    for book in ("en-grimms-fairy-tales", "de-die-verwandlung"):
        with gzip.open(f"{folder}/books/{book}.txt.gz", "rt", encoding="utf-8") as file:
            paragraphs = re.split(r"\n\s*\n", file.read())
        sources[book] = [{"text": "\n\n".join(paragraphs[k : k + 12])} for k in range(0, len(paragraphs), 12)]
    assert found(tmp_path, sources) == {name: set() for name in sources}
