"""Mistakes 1 to 4: the text."""

from __future__ import annotations

import ast
import random
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shop import Shop, Story, Told, Words, gone, pick

LICENCE = "licence: PSF-2.0"
TEST_SET = (
    (
        "How many platforms does the station of Altmere have?",
        "The station of Altmere has seven platforms, two of which are used by night trains only.",
    ),
    (
        "Who repaired the clock in the tower of Birkdale?",
        "The clock in the tower of Birkdale was repaired by a retired sailor named Tobias Renn in the spring of 1931.",
    ),
    (
        "What does the ferry to Corin carry on Mondays?",
        "On Mondays the ferry to Corin carries post, milk cans and, if the weather allows it, the two horses of the mayor.",
    ),
    (
        "Why is the bridge at Dunmoor painted green?",
        "The bridge at Dunmoor is painted green because the paint was left over from the fence of the public garden.",
    ),
    (
        "Which bird nests under the roof of the Ebral library?",
        "A pair of kestrels has nested under the roof of the Ebral library every year since the great storm.",
    ),
    (
        "When does the market of Farrow close in winter?",
        "In winter the market of Farrow closes at half past three, before the lamps in the arcade are lit.",
    ),
)


def docstrings(least: int = 400, limit: int = 260) -> list[str]:
    """Real English prose that every Python carries: documentation strings of the standard library."""
    found: list[str] = []
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = ast.get_docstring(node) or ""
                if len(text) >= least:
                    found.append(text)
    return found[:limit]


def source(name: str, path: str, more: str = "") -> str:
    """A line of `corpus.sources`."""
    return f"{{name: {name}, path: {path}, domain: reference, language: en, {LICENCE}{more}}}"


def gigabytes(shop: Shop) -> Told:
    """The same pages collected nine times; the budget is read off the disk."""
    texts = docstrings()
    for number in range(9):
        shop.rows(f"crawl/part-{number}.jsonl", ({"text": text} for text in texts))
    on_disk = sum(path.stat().st_size for path in (shop.folder / "crawl").iterdir())

    def recipe(tokens: int) -> str:
        return (
            f"name: gigabytes\npreset: tiny\ncorpus:\n  sources: [{source('crawl', 'crawl')}]\n"
            f"train:\n  budget: {{steps: null, tokens: {tokens}}}\n"
        )

    shop.write("gigabytes.yaml", recipe(on_disk // 4))
    built = shop.json("corpus", "build", "gigabytes.yaml", "--out", "work")
    pick(built["findings"], "CORPUS/many-duplicates")
    planned = shop.json("plan", "gigabytes.yaml", "--out", "work")
    finding = pick(planned["findings"], "BUDGET/too-many-epochs")
    shop.write("gigabytes.yaml", recipe(2 * planned["usable_tokens"]))
    after = shop.json("plan", "gigabytes.yaml", "--out", "work")
    gone(after["findings"], finding.id)
    return Told(
        finding,
        None,
        Words(
            "the budget counts usable tokens instead of bytes on disk",
            "das Budget zählt nutzbare Tokens statt Bytes auf der Platte",
        ),
        Words("times every text is read", "Lesungen jedes Textes"),
        planned["epochs"],
        after["epochs"],
        "{:.1f}",
    )


BANNER = (
    "We use cookies to improve your experience on this site, and so do our one hundred and twelve partners. "
)


def boilerplate(shop: Shop) -> Told:
    """A banner on every page, and line removal switched off because it seemed to cost text."""
    menu = "Home page and all our services | Search the whole catalogue | Your account and your basket\n"
    shop.rows("pages.jsonl", ({"text": f"{menu}{BANNER}\n{text}\n{menu}{BANNER}"} for text in docstrings()))

    def recipe(enabled: str) -> str:
        return (
            f"name: boilerplate\npreset: tiny\ncorpus:\n  sources: [{source('pages', 'pages.jsonl')}]\n"
            f"  dedupe: {{lines: {{enabled: {enabled}}}, paragraphs: {{enabled: {enabled}}}}}\n"
        )

    shop.write("boilerplate.yaml", recipe("false"))
    seen = shop.json("check", "boilerplate.yaml", "--out", "work", "--only", "raw-text", expect=(0, 1))
    finding = pick(seen["findings"], "CORPUS/boilerplate")
    before = _share(shop, BANNER.strip(), menu.strip())
    shop.write("boilerplate.yaml", recipe("true"))
    after = shop.json("check", "boilerplate.yaml", "--out", "work", "--only", "raw-text", expect=(0, 1))
    gone(after["findings"], finding.id)
    return Told(
        finding,
        None,
        Words(
            "repeated lines and paragraphs are taken out (the default)",
            "wiederholte Zeilen und Absätze werden entfernt (die Vorgabe)",
        ),
        Words(
            "share of the training text that is banner and menu",
            "Anteil von Banner und Menü am Trainingstext",
        ),
        before,
        _share(shop, BANNER.strip(), menu.strip()),
        "{:.1%}",
    )


def training_texts(shop: Shop) -> Iterator[str]:
    """Training documents of the story's newest corpus."""
    from umsicht.corpus import documents
    from umsicht.record.project import Project

    made = [one for one in Project(shop.folder / "work").store.artifacts() if one.kind == "corpus"]
    newest = max(made, key=lambda one: (one.path / "manifest.json").stat().st_mtime)
    return (one.text for one in documents(newest, "train"))


def _share(shop: Shop, *lines: str) -> float:
    total, repeated = 0, 0
    for text in training_texts(shop):
        total += len(text)
        repeated += sum(text.count(line) * len(line) for line in lines)
    return repeated / total


def evaluation_text(shop: Shop) -> Told:
    """Forum pages that quote the test set, which nobody named to the corpus."""
    texts, rng = docstrings(), random.Random(0)
    shop.rows("test.jsonl", ({"question": question, "answer": answer} for question, answer in TEST_SET))

    def page(number: int, text: str) -> dict[str, Any]:
        if number % 10:
            return {"text": text}
        question, answer = TEST_SET[number // 10 % len(TEST_SET)]
        quoted = rng.choice(
            (f"{question} {answer}", f"Q: {question.upper()}\nA: {answer}", f"{question}\n\n> {answer}")
        )
        return {"text": f"{text}\n\n{quoted}\n"}

    shop.rows("forum.jsonl", (page(number, text) for number, text in enumerate(texts)))

    def recipe(protect: str) -> str:
        return (
            f"name: leaked\npreset: tiny\ncorpus:\n  sources: [{source('forum', 'forum.jsonl')}]\n{protect}"
        )

    shop.write("leaked.yaml", recipe(""))
    shop.json("corpus", "build", "leaked.yaml", "--out", "work")
    before = _known_items(shop)
    shop.write(
        "leaked.yaml", recipe("  protect: [{name: test, path: test.jsonl, fields: [question, answer]}]\n")
    )
    built = shop.json("corpus", "build", "leaked.yaml", "--out", "work")
    finding = pick(built["findings"], "CORPUS/protected-text")
    return Told(
        finding,
        None,
        Words("the test set is declared under corpus.protect", "die Testmenge steht unter corpus.protect"),
        Words(
            f"of {len(TEST_SET)} test answers that stand in the training text",
            f"von {len(TEST_SET)} Testantworten, die im Trainingstext stehen",
        ),
        before,
        _known_items(shop),
        "{:.0f}",
    )


def _known_items(shop: Shop) -> int:
    whole = " ".join(" ".join(text.lower().split()) for text in training_texts(shop))
    return sum(answer.lower() in whole for _, answer in TEST_SET)


def one_source(shop: Shop) -> Told:
    """A shop's pages are most of the text; nobody looked at their tone."""
    rng = random.Random(0)
    goods = (
        "running shoes",
        "coffee machine",
        "holiday resort",
        "mattress",
        "headphones",
        "garden furniture",
        "language course",
    )
    praise = (
        "amazing",
        "unbeatable",
        "luxurious",
        "award-winning",
        "irresistible",
        "exclusive",
        "premium",
        "stunning",
    )
    shapes = (
        "Discover the {a} {g} that thousands of happy customers love!",
        "Order now and save up to {n} % on our {a} {g}, only while stocks last!",
        "Why settle for less? Treat yourself to a {a} and {b} {g} today.",
        "Our {g} offers {a} comfort at an unbeatable price, guaranteed.",
        "Sign up today and get an exclusive {n} % discount on every {g}!",
        "Hurry, this {a} offer for your dream {g} ends at midnight!",
        "Experts agree: nothing beats our {b} {g}. Shop now!",
    )

    def advert() -> str:
        lines = [
            shape.format(
                a=rng.choice(praise), b=rng.choice(praise), g=rng.choice(goods), n=rng.randrange(10, 80)
            )
            for shape in rng.sample(shapes, 5)
        ]
        return " ".join(lines)

    shop.rows("shop.jsonl", ({"text": advert()} for _ in range(900)))
    shop.rows("manual.jsonl", ({"text": text} for text in docstrings()))

    def recipe(filters: str) -> str:
        pages = f"{{name: shop, path: shop.jsonl, domain: web, language: en, licence: CC0-1.0{filters}}}"
        return f"name: one-source\npreset: tiny\ncorpus:\n  sources:\n    - {pages}\n    - {source('manual', 'manual.jsonl')}\n"

    shop.write("one-source.yaml", recipe(""))
    built = shop.json("corpus", "build", "one-source.yaml", "--out", "work")
    finding = pick(built["findings"], "CORPUS/promotional-tone")
    before = _promotional(shop)
    shop.write("one-source.yaml", recipe(", filter: {classifiers: {promotional: {action: drop}}}"))
    shop.json("corpus", "build", "one-source.yaml", "--out", "work")
    return Told(
        finding,
        None,
        Words("the shop's promotional pages are dropped", "die werblichen Seiten des Shops werden verworfen"),
        Words(
            "share of the training text that reads like advertising",
            "Anteil des Trainingstextes, der sich wie Werbung liest",
        ),
        before,
        _promotional(shop),
        "{:.0%}",
    )


def _promotional(shop: Shop) -> float:
    """Counted on what is trained on, not on what was read."""
    from umsicht.corpus.kernels.spans import spans_from
    from umsicht.corpus.label.classifier import preset

    texts = list(training_texts(shop))
    classifier = preset("promotional")
    scores = classifier.scores(spans_from(texts))
    toned = sum(len(text) for text, score in zip(texts, scores, strict=True) if score >= classifier.threshold)
    return toned / sum(map(len, texts))


STORIES = (
    Story(
        1,
        "gigabytes",
        Words("Gigabytes instead of usable tokens", "Gigabytes statt nutzbarer Tokens"),
        gigabytes,
    ),
    Story(
        2,
        "boilerplate",
        Words("Only exact copies are removed", "Nur exakte Kopien werden entfernt"),
        boilerplate,
    ),
    Story(
        3,
        "one-source",
        Words("An unweighted mix of unfiltered text", "Eine ungewichtete Mischung aus ungefiltertem Text"),
        one_source,
    ),
    Story(
        4,
        "evaluation-text",
        Words("Evaluation data in the training data", "Testdaten im Trainingstext"),
        evaluation_text,
    ),
)
