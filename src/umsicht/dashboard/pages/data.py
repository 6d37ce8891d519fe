"""What the corpus became: each source's tokens after each cleaning stage, what was dropped and why, and documents to read."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from umsicht.dashboard.context import entry_of, facts_of, lang_of
from umsicht.dashboard.facts import mapping, rendered
from umsicht.dashboard.pages.live import run_page
from umsicht.dashboard.peek import peek
from umsicht.dashboard.svg import funnel
from umsicht.dashboard.templating import render
from umsicht.words import t


def data(request: Request) -> Response:
    """The page."""
    entry, lang = entry_of(request), lang_of(request)
    found = facts_of(entry).artifact("corpus")
    if found is None:
        return run_page(request, "data.html", "data", corpus=None)
    folder, manifest, report = found
    sources = source_rows(report)
    seed = random.randrange(10**6)
    return run_page(
        request,
        "data.html",
        "data",
        corpus={"name": folder.name, "id": str(manifest.get("id", ""))[:12]},
        funnel=stage_funnel(sources, lang),
        sources=sources,
        stage_names={name: _stage(name, lang) for source in sources for name, _ in source["stages"]},
        slices=slice_rows(report),
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
        reasons=sorted({str(reason) for source in sources for reason in source["reasons"]}),
        seed=seed,
        broken={name: counts for name, counts in mapping(report.get("broken")).items() if counts},
    )


def source_rows(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A source with its stages, in the order of the report."""
    made = []
    for name, about in mapping(report.get("sources")).items():
        stages = [stage for stage in mapping(about).get("stages") or () if isinstance(stage, dict)]
        reasons: dict[str, float] = {}
        for stage in stages:
            for reason, count in mapping(stage.get("reasons") or stage.get("dropped")).items():
                reasons[reason] = reasons.get(reason, 0) + _count(count)
        made.append(
            {
                "name": name,
                "domain": about.get("domain"),
                "language": about.get("language"),
                "licence": about.get("licence"),
                "stages": [
                    (
                        str(stage.get("stage")),
                        {key: _count(stage.get(key)) for key in ("documents", "bytes", "tokens")},
                    )
                    for stage in stages
                ],
                "reasons": reasons,
            }
        )
    return made


def _count(value: object) -> float:
    if isinstance(value, Mapping):
        return _count(value.get("documents"))
    return float(value) if isinstance(value, (int, float)) else 0.0


def stage_funnel(sources: list[dict[str, Any]], lang: str) -> dict[str, str]:
    """All sources together, stage by stage: by tokens where every stage counts them, by bytes else."""
    totals: dict[str, dict[str, float]] = {}
    for source in sources:
        for stage, counts in source["stages"]:
            into = totals.setdefault(stage, {"documents": 0.0, "bytes": 0.0, "tokens": 0.0})
            for key, value in counts.items():
                into[key] += value
    unit = "tokens" if totals and all(counts["tokens"] for counts in totals.values()) else "bytes"
    stages = [(_stage(name, lang), counts[unit]) for name, counts in totals.items()]
    title = t("dashboard.data.funnel", lang=lang)
    return {
        "svg": funnel(stages, title=title, lang=lang, unit="B" if unit == "bytes" else "", width=1080),
        "unit": t(f"dashboard.data.by_{unit}", lang=lang),
    }


def _stage(name: str, lang: str) -> str:
    key = f"corpus.stage.{name}"
    word = t(key, lang=lang)
    return name if word == key else word


def slice_rows(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Documents and bytes of each slice in training and validation, with the share of the training text."""
    made: list[dict[str, Any]] = []
    for name, splits in mapping(report.get("slices")).items():
        train = mapping(splits.get("train")) if isinstance(splits, Mapping) else {}
        val = mapping(splits.get("val")) if isinstance(splits, Mapping) else {}
        flat = splits if isinstance(splits, Mapping) and not train and not val else {}
        made.append(
            {
                "name": name,
                "documents": _count((train or flat).get("documents")),
                "bytes": _count((train or flat).get("bytes")),
                "val_documents": _count(val.get("documents")),
                "val_bytes": _count(val.get("bytes")),
            }
        )
    total = sum(item["bytes"] for item in made) or 1.0
    return sorted(
        ({**item, "share": item["bytes"] / total} for item in made), key=lambda item: -item["bytes"]
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
