"""What the tokenizer costs each language: tokens a word and bytes a token on text it was not trained on, beside a reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from umsicht.dashboard.context import entry_of, facts_of, lang_of
from umsicht.dashboard.facts import mapping, rendered
from umsicht.dashboard.pages.live import run_page


def tokenizer(request: Request) -> Response:
    """The page."""
    entry, lang = entry_of(request), lang_of(request)
    found = facts_of(entry).artifact("tokenizer")
    if found is None:
        return run_page(request, "tokenizer.html", "tokenizer", report=None)
    folder, manifest, report = found
    return run_page(
        request,
        "tokenizer.html",
        "tokenizer",
        report={"name": folder.name, "id": str(manifest.get("id", ""))[:12]},
        facts=[
            (name, report[name])
            for name in ("n_tokens", "merges", "pre_tokenizer", "equal_ids_texts", "digest")
            if name in report
        ],
        special=sorted(mapping(report.get("special")).items(), key=lambda item: item[1]),
        fertility=fertility_rows(report),
        longest=_longest(report),
        findings=[
            {
                "words": words,
                "count": 1,
                "waiver": None,
                "location": item.get("location", ""),
                "examples": tuple(item.get("examples") or ()),
            }
            for item in report.get("findings") or ()
            if (words := rendered(item, lang)) is not None
        ],
    )


def fertility_rows(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row a slice or language; `ratio` compares tokens a word with the cheapest row."""
    made = []
    for name, figures in mapping(report.get("fertility")).items():
        figures = mapping(figures)
        made.append(
            {
                "name": name,
                **{
                    key: figures.get(key) for key in ("tokens_per_word", "bytes_per_token", "tokens", "words")
                },
            }
        )
    known = [
        float(row["tokens_per_word"]) for row in made if isinstance(row["tokens_per_word"], (int, float))
    ]
    cheapest = min(known, default=None)
    for row in made:
        value = row["tokens_per_word"]
        row["ratio"] = float(value) / cheapest if cheapest and isinstance(value, (int, float)) else None
    return sorted(made, key=lambda row: row["ratio"] or 0)


def _longest(report: Mapping[str, Any]) -> list[str]:
    for name in ("longest_tokens", "longest"):
        found = report.get(name)
        if isinstance(found, list):
            return [
                str(item.get("text", item)) if isinstance(item, Mapping) else str(item) for item in found[:40]
            ]
    return []


ROUTES = [Route("/run/{run}/tokenizer", tokenizer)]
