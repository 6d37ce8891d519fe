"""What the tokenizer costs each language: tokens a word and bytes a token on text it was not trained on, beside a reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from umsicht.dashboard.context import entry_of, facts_of, lang_of
from umsicht.dashboard.corpus_view import fertility_rows, findings_in
from umsicht.dashboard.facts import mapping
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
        parallel=[(name, mapping(about)) for name, about in mapping(report.get("parallel")).items()],
        scripts=[(name, n) for name, n in mapping(mapping(report.get("vocabulary")).get("scripts")).items()],
        junk=[str(item) for item in mapping(report.get("vocabulary")).get("junk") or ()][:30],
        findings=findings_in(report, lang),
    )


def _longest(report: Mapping[str, Any]) -> list[str]:
    for source in (report, mapping(report.get("vocabulary"))):
        found = source.get("longest")
        if isinstance(found, list):
            return [
                str(item.get("text", item)) if isinstance(item, Mapping) else str(item) for item in found[:40]
            ]
    return []


ROUTES = [Route("/run/{run}/tokenizer", tokenizer)]
