"""The list of runs: newest first, one line each, from small cached summaries."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from umsicht.dashboard.context import Dashboard, lang_of, page, state
from umsicht.dashboard.index import Entry
from umsicht.dashboard.summary import state_of
from umsicht.dashboard.svg import spark
from umsicht.dashboard.templating import render
from umsicht.dashboard.verdicts import verdict
from umsicht.words import t

STATE_TONES = {
    "running": "good",
    "failed": "bad",
    "stopped": "bad",
    "stopped-by-guard": "bad",
    "silent": "warn",
    "interrupted": "warn",
}


def runs(request: Request) -> Response:
    """The page."""
    dashboard, lang = state(request), lang_of(request)
    entries = dashboard.index.entries()
    query = request.query_params.get("q", "")
    return page(
        request,
        "runs.html",
        section="runs",
        rows=rows(dashboard, entries, query, lang),
        total=len(entries),
        q=query,
        progress=dashboard.worker.progress(),
        picked=(),
    )


def fragment(request: Request) -> Response:
    """The table's rows anew, with the progress of preparing."""
    dashboard, lang = state(request), lang_of(request)
    made = rows(dashboard, dashboard.index.entries(), request.query_params.get("q", ""), lang)
    picked = request.query_params.getlist("run")
    progress = dashboard.worker.progress()
    progress["text"] = t("dashboard.runs.preparing", lang=lang, left=progress["left"])
    return JSONResponse(
        {"html": render("_runs_rows.html", lang, rows=made, picked=picked), "progress": progress}
    )


def rows(dashboard: Dashboard, entries: list[Entry], query: str, lang: str) -> list[dict[str, Any]]:
    """One mapping a run; `query` filters by name, state, verdict and group (all words must occur)."""
    made = [row(dashboard, entry, lang) for entry in entries]
    words = query.lower().split()
    return [item for item in made if all(word in item["search"] for word in words)]


def row(dashboard: Dashboard, entry: Entry, lang: str) -> dict[str, Any]:
    """What one line shows."""
    summary = dashboard.summary(entry) or {}
    diagnosis, _ = dashboard.diagnosis(entry, lang)
    now = state_of(entry.manifest, summary)
    shown = verdict(diagnosis, lang) if diagnosis else None
    made: dict[str, Any] = {
        "id": entry.id,
        "group": group_of(entry.manifest, lang),
        "state": now,
        "state_tone": STATE_TONES.get(now, ""),
        "verdict": {"tone": shown.tone, "sign": shown.sign, "short": shown.short} if shown else None,
        "planned": entry.manifest.get("planned_steps"),
        "eta": summary.get("eta_s") if now == "running" else None,
        "spark": spark(summary.get("spark") or [], title=t("dashboard.runs.curve", lang=lang)),
    }
    made |= {key: summary.get(key) for key in ("step", "tokens", "train", "val", "bpb", "rate")}
    made["search"] = " ".join(
        [entry.id, t(f"dashboard.state.{now}", lang=lang), shown.short if shown else "", made["group"]]
    ).lower()
    return made


def group_of(manifest: dict[str, Any], lang: str) -> str:
    """Seed, and the parent run of an experiment, where they are recorded."""
    parts = []
    if manifest.get("seed") is not None:
        parts.append(t("dashboard.runs.seed", lang=lang, seed=manifest["seed"]))
    parent = manifest.get("parent")
    if parent:
        parts.append(
            t(
                "dashboard.runs.parent",
                lang=lang,
                parent=parent if isinstance(parent, str) else parent.get("run", ""),
            )
        )
    return " · ".join(parts)


ROUTES = [Route("/", runs), Route("/api/runs", fragment)]
