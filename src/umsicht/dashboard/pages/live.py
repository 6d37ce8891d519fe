"""The live page of a run: verdict, tiles, and its curves; server-drawn SVG first, interactive charts where the browser can."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from umsicht.dashboard.charting import figure
from umsicht.dashboard.context import Dashboard, embedded, entry_of, facts_of, lang_of, page, state
from umsicht.dashboard.curves import Chart, charts
from umsicht.dashboard.html_report import HALF, WIDE, clip_threshold, event_marks, report
from umsicht.dashboard.index import Entry
from umsicht.dashboard.pages.runs import STATE_TONES, group_of
from umsicht.dashboard.sidecar import cache_folder
from umsicht.dashboard.summary import first_nonfinite, state_of
from umsicht.dashboard.tables import tiles
from umsicht.dashboard.templating import render
from umsicht.dashboard.verdicts import Verdict, verdict
from umsicht.record.columns import Columns, replaced_rows
from umsicht.words import t

AXES = ("step", "tokens", "time")
TABS = (
    ("live", ""),
    ("diagnosis", "diagnosis"),
    ("data", "data"),
    ("tokenizer", "tokenizer"),
    ("samples", "samples"),
    ("checkpoints", "checkpoints"),
    ("sheet", "sheet"),
    ("report", "report"),
)


def live(request: Request) -> Response:
    """The page. `?x=` chooses the axis for readers without script."""
    dashboard, entry, lang = state(request), entry_of(request), lang_of(request)
    columns = dashboard.columns(entry)
    if columns is None:
        return run_page(request, "live.html", "live", preparing=True)
    axis = request.query_params.get("x", "step")
    axis = axis if axis in AXES else "step"
    facts = facts_of(entry)
    shown = verdict(dashboard.diagnosis(entry, lang)[0], lang)
    chosen = charts(columns, lang, clip=clip_threshold(facts), order=facts.slices_by_size)
    marks = event_marks(shown, lang) if axis == "step" else []
    figures = [
        figure(
            columns,
            chart,
            lang,
            axis=axis,
            events=marks,
            size=WIDE if place < 2 else HALF,
            pixels=300,
            unit_inside=False,
        )
        for place, chart in enumerate(chosen)
    ]
    data = {
        "run": entry.id,
        "axis": axis,
        "charts": [described(chart, lang) for chart in chosen],
        "events": events(shown, lang),
    }
    return run_page(
        request,
        "live.html",
        "live",
        preparing=False,
        figures=figures,
        axis=axis,
        chart_json=embedded(data),
        **top(entry, columns, shown, lang),
    )


def run_page(request: Request, template: str, tab: str, **context: Any) -> Response:
    """A page of one run, with its head and tabs."""
    dashboard, entry, lang = state(request), entry_of(request), lang_of(request)
    return page(
        request,
        template,
        section="runs",
        run=entry,
        tab=tab,
        tabs=TABS,
        head=head(dashboard, entry, lang),
        **context,
    )


def head(dashboard: Dashboard, entry: Entry, lang: str) -> dict[str, Any]:
    """State, step and time left, for the line under the run's name."""
    summary = dashboard.summary(entry) or {}
    now = state_of(entry.manifest, summary)
    planned, step = entry.manifest.get("planned_steps"), summary.get("step")
    share = (step + 1) / planned if isinstance(planned, int) and planned and step is not None else None
    return {
        "state": now,
        "state_tone": STATE_TONES.get(now, ""),
        "step": step,
        "planned": planned,
        "share": min(1.0, share) if share is not None else None,
        "eta": summary.get("eta_s"),
        "group": group_of(entry.manifest, lang),
    }


def top(entry: Entry, columns: Columns, shown: Verdict, lang: str) -> dict[str, Any]:
    """Banner, verdict and tiles."""
    last = float(columns.time[-1]) if columns.n else None
    return {
        "verdict": shown,
        "tiles": tiles(facts_of(entry), columns, lang),
        "nonfinite": first_nonfinite(columns),
        "last_write_s": max(0.0, time.time() - last)
        if last is not None and last > 1e9 and entry.manifest.get("state") == "running"
        else None,
        "n_rows": columns.n,
        "bad_lines": columns.bad,
        "attempts": 1 + int(np.count_nonzero(np.diff(columns.segment) != 0)) if columns.n else 0,
        "clip_share": clip_share(columns),
    }


def clip_share(columns: Columns) -> float | None:
    """Share of the counted steps at which the gradient was clipped."""
    column = columns.series.get("train/clipped")
    if column is None:
        return None
    values = column.values[~replaced_rows(columns)[column.rows]]
    return float(np.nanmean(values)) if len(values) else None


def described(chart: Chart, lang: str) -> dict[str, Any]:
    """A chart as the script needs it."""
    return {
        "id": chart.id,
        "title": chart.title(lang),
        "unit": chart.unit(lang),
        "log": chart.log_y,
        "limit": chart.limit,
        "curves": [{"key": c.key, "label": c.label, "slot": c.slot, "dots": c.dots} for c in chart.curves],
    }


def events(shown: Verdict, lang: str) -> list[dict[str, Any]]:
    """The marks that can be opened: spikes with the step at which they happened."""
    return [{"step": mark.x, "kind": mark.kind, "label": mark.label} for mark in event_marks(shown, lang)]


def status(request: Request) -> Response:
    """Head, banner, verdict and tiles anew, as markup of ours, and whether there is anything to wait for."""
    dashboard, entry, lang = state(request), entry_of(request), lang_of(request)
    columns = dashboard.columns(entry)
    about = head(dashboard, entry, lang)
    if columns is None:
        return JSONResponse({"preparing": True, "progress": dashboard.worker.progress()})
    shown = verdict(dashboard.diagnosis(entry, lang)[0], lang)
    chosen = charts(columns, lang, clip=clip_threshold(facts_of(entry)), order=facts_of(entry).slices_by_size)
    return JSONResponse(
        {
            "preparing": False,
            "state": about["state"],
            "head": render("_run_state.html", lang, head=about),
            "top": render("_live_top.html", lang, **top(entry, columns, shown, lang)),
            "charts": [described(chart, lang) for chart in chosen],
            "events": events(shown, lang),
            "headline": shown.headline,
        }
    )


def metrics(request: Request) -> Response:
    """The raw file, complete: it is the truth, and whatever a page draws is drawn from it."""
    entry = entry_of(request)
    return FileResponse(
        entry.folder / "metrics.jsonl",
        media_type="application/x-ndjson",
        filename=f"{entry.id}.metrics.jsonl",
    )


def report_file(request: Request) -> Response:
    """The self-contained report, written now."""
    entry, lang = entry_of(request), lang_of(request)
    redact = request.query_params.get("redact") == "1"
    written = report(
        entry.folder, cache_folder(entry.folder) / f"report{'-redacted' if redact else ''}.html", lang, redact
    )
    answer = HTMLResponse(written.read_bytes())
    answer.headers["content-security-policy"] = (
        "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
    )
    if request.query_params.get("download") == "1":
        answer.headers["content-disposition"] = (
            f'attachment; filename="{t("dashboard.report.filename", lang=lang)}.html"'
        )
    return answer


ROUTES = [
    Route("/run/{run}/", live),
    Route("/run/{run}/status", status),
    Route("/run/{run}/metrics.jsonl", metrics),
    Route("/run/{run}/report", report_file),
]
