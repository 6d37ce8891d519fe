"""Mistakes 5 to 7: what is decided before anything is spent."""

from __future__ import annotations

import re

from data import docstrings, source
from shop import Shop, Story, Told, Words, gone, pick

STARTER = "{name: starter, kind: starter, parts: [wiktionary, stdlib], max_bytes: 400000}"


def tokenizer(shop: Shop) -> Told:
    """A model for German and English, a tokenizer that has only seen English."""

    def recipe(shares: str) -> str:
        return (
            f"name: tokenizer\npreset: tiny\ncorpus:\n  sources: [{STARTER}]\n"
            f"tokenizer: {{vocab_size: 2048, languages: [de, en]{shares}}}\n"
        )

    shop.write("tokenizer.yaml", recipe(", shares: {en: 1.0}"))
    shut = shop.json("tokenizer", "train", "tokenizer.yaml", "--out", "work", expect=(1,))
    finding = pick(shut["stopping"], "TOKENIZER/language-missing")
    before = _german_cost(shop)
    shop.write("tokenizer.yaml", recipe(""))
    shop.json("tokenizer", "train", "tokenizer.yaml", "--out", "work")
    return Told(
        finding,
        None,
        Words(
            "every language of the model is in the tokenizer's sample",
            "jede Sprache des Modells ist in der Stichprobe des Tokenizers",
        ),
        Words("tokens per word of German", "Tokens pro Wort im Deutschen"),
        before,
        _german_cost(shop),
    )


def _german_cost(shop: Shop) -> float:
    """Tokens per word of the newest tokenizer on held-out German."""
    from umsicht.record.project import Project

    made = [one for one in Project(shop.folder / "work").store.artifacts() if one.kind == "tokenizer"]
    newest = max(made, key=lambda one: (one.path / "manifest.json").stat().st_mtime)
    found = newest.report["fertility"]
    german = next(name for name in found if name.endswith(".de"))
    return float(found[german]["tokens_per_word"])


def budget(shop: Shop) -> Told:
    """A width that was chosen because others use it."""

    def recipe(width: int, tokens: int) -> str:
        return (
            f"name: budget\npreset: tiny\ncorpus:\n  sources: [{STARTER}]\nmodel: {{d_model: {width}, seq_len: 64}}\n"
            f"train: {{budget: {{steps: null, tokens: {tokens}}}, global_batch_tokens: 1024}}\nplan: {{device_hours: 0.1, restarts: 1}}\n"
        )

    shop.write("budget.yaml", recipe(256, 8_000_000))
    planned = after = shop.json("plan", "budget.yaml", "--out", "work", expect=(1,))
    finding = pick(planned["findings"], "BUDGET/training-not-covered")
    fits = str(finding.numbers["fits"])
    for _ in range(3):
        width, tokens = (int(number.replace(",", "")) for number in re.findall(r"[\d,]*\d", fits))
        shop.write("budget.yaml", recipe(width, tokens))
        after = shop.json("plan", "budget.yaml", "--out", "work", expect=(0, 1))
        short = [one for one in after["findings"] if one["id"] in (finding.id, "BUDGET/restart-not-covered")]
        if not short:
            break
        fits = str(short[0]["numbers"]["fits"])
    else:
        raise LookupError(f"{finding.id} is still there at {fits}")
    return Told(
        finding,
        None,
        Words(
            f"the size that the finding names: {fits}, instead of d_model 256",
            f"die Größe, die der Befund nennt: {fits}, statt d_model 256",
        ),
        Words(
            "device hours with one restart and the reserve (0.1 may be spent)",
            "Gerätestunden mit Neustart und Reserve (0,1 sind erlaubt)",
        ),
        planned["cost"]["device_hours"],
        after["cost"]["device_hours"],
        "{:.3f}",
    )


def context(shop: Shop) -> Told:
    """Two thousand tokens of context for documentation strings of a few lines."""
    shop.rows("short.jsonl", ({"text": text} for text in docstrings(120, 1200) if len(text) < 1500))

    def recipe(length: int) -> str:
        return (
            f"name: context\npreset: tiny\ncorpus:\n  sources: [{source('short', 'short.jsonl')}]\n"
            f"model: {{seq_len: {length}}}\n"
        )

    shop.write("context.yaml", recipe(2048))
    said = shop.json("plan", "context", "context.yaml", "--out", "work")
    finding = pick(said["findings"], "CONTEXT/unfilled")
    length = int(said["recommended_seq_len"])
    shop.write("context.yaml", recipe(length))
    after = shop.json("plan", "context", "context.yaml", "--out", "work")
    gone(after["findings"], finding.id)
    return Told(
        finding,
        None,
        Words(
            f"the recommended length, {length}, instead of 2048", f"die empfohlene Länge, {length} statt 2048"
        ),
        Words(
            "share of positions whose context the data fill",
            "Anteil der Positionen, deren Kontext die Daten füllen",
        ),
        _filled(said, 2048),
        _filled(after, length),
        "{:.0%}",
    )


def _filled(said: dict[str, object], length: int) -> float:
    figures = said["figures"]
    assert isinstance(figures, list)
    return max(float(one["filled"]) for one in figures if one["seq_len"] == length)


STORIES = (
    Story(
        5,
        "tokenizer",
        Words(
            "A tokenizer that does not fit the languages", "Ein Tokenizer, der nicht zu den Sprachen passt"
        ),
        tokenizer,
    ),
    Story(
        6,
        "budget",
        Words("A model size without a compute budget", "Eine Modellgröße ohne Rechenbudget"),
        budget,
    ),
    Story(
        7,
        "context",
        Words("A context length that the data never fill", "Eine Kontextlänge, die die Daten nie füllen"),
        context,
    ),
)
