"""What the corpus became: each source after each cleaning stage, what was dropped and why, and documents to read."""

from __future__ import annotations

import random
from pathlib import Path

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from umsicht.dashboard import corpus_view
from umsicht.dashboard.context import entry_of, facts_of, lang_of
from umsicht.dashboard.facts import mapping
from umsicht.dashboard.pages.live import run_page
from umsicht.dashboard.peek import peek
from umsicht.dashboard.templating import render


def data(request: Request) -> Response:
    """The page."""
    facts, lang = facts_of(entry_of(request)), lang_of(request)
    found = facts.artifact("corpus")
    if found is None:
        return run_page(request, "data.html", "data", corpus=None)
    folder, manifest, report = found
    sources = corpus_view.source_rows(report)
    stages = corpus_view.changing_stages(sources)
    return run_page(
        request,
        "data.html",
        "data",
        corpus={"name": folder.name, "id": str(manifest.get("id", ""))[:12]},
        funnel=corpus_view.stage_funnel(sources, lang),
        sources=sources,
        stages=[(name, corpus_view.stage_name(name, lang)) for name in stages],
        slices=corpus_view.slice_rows(report),
        lengths=corpus_view.length_chart(report, facts, lang),
        reasons=corpus_view.reasons(report, lang),
        duplicates=corpus_view.duplicates(report),
        shares=corpus_view.shares(facts),
        findings=corpus_view.findings_in(report, lang),
        seed=random.randrange(10**6),
        broken={name: counts for name, counts in mapping(report.get("broken")).items() if mapping(counts)},
    )


def documents(request: Request) -> Response:
    """A few documents at random: `?source=` of the kept ones, or `?reason=` of the dropped ones; `seed` makes it repeatable."""
    entry, lang = entry_of(request), lang_of(request)
    found = facts_of(entry).artifact("corpus")
    asked = request.query_params
    if found is None:
        return JSONResponse({"html": ""})
    shown, problem = peek(
        Path(found[0]),
        source=asked.get("source", ""),
        reason=asked.get("reason", ""),
        dropped=asked.get("dropped") == "1",
        seed=asked.get("seed", "0"),
    )
    return JSONResponse({"html": render("_documents.html", lang, documents=shown, problem=problem)})


ROUTES = [Route("/run/{run}/data", data), Route("/run/{run}/documents", documents)]
