"""Why the verdict: the run's own curve beside the textbook pictures, the numbers, the next checks, events and findings."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from umsicht.dashboard.charting import figure
from umsicht.dashboard.context import entry_of, facts_of, lang_of, state
from umsicht.dashboard.curves import Chart, Curve, charts
from umsicht.dashboard.html_report import finding_list
from umsicht.dashboard.pages.live import run_page
from umsicht.dashboard.svg import PATTERNS, schematic
from umsicht.dashboard.verdicts import Verdict, verdict
from umsicht.words import t


def diagnosis(request: Request) -> Response:
    """The page."""
    dashboard, entry, lang = state(request), entry_of(request), lang_of(request)
    columns = dashboard.columns(entry)
    if columns is None:
        return run_page(request, "live.html", "diagnosis", preparing=True)
    plain, is_fresh = dashboard.diagnosis(entry, lang)
    shown = verdict(plain, lang)
    own = next((chart for chart in charts(columns, lang) if chart.id == "loss"), None)
    return run_page(
        request,
        "diagnosis.html",
        "diagnosis",
        verdict=shown,
        is_fresh=is_fresh,
        own=figure(columns, _own(own), lang, pixels=160, size=(460, 250)) if own else None,
        patterns=[pattern(name, shown, lang) for name in PATTERNS],
        events=[event(item, lang) for item in shown.events],
        findings=finding_list(facts_of(entry), lang, False),
    )


def _own(chart: Chart) -> Chart:
    """The like-for-like pair where it exists: re-measured training against validation."""
    keys = [curve.key for curve in chart.curves]
    wanted = ("train_eval/loss" if "train_eval/loss" in keys else "train/loss", "val/all/loss")
    picked = [curve for key in wanted for curve in chart.curves if curve.key == key]
    curves = tuple(Curve(curve.key, curve.label, slot, curve.dots) for slot, curve in enumerate(picked))
    return Chart(chart.id, curves, log_y=None)


def pattern(name: str, shown: Verdict, lang: str) -> dict[str, Any]:
    """One textbook picture with its words."""
    title = t(f"dashboard.pattern.{name}", lang=lang)
    return {
        "name": name,
        "title": title,
        "about": t(f"dashboard.pattern.{name}.about", lang=lang),
        "svg": schematic(name, title=f"{title}. {t('dashboard.pattern.schematic', lang=lang)}"),
        "closest": shown.pattern == name,
    }


def event(item: Any, lang: str) -> dict[str, Any]:
    """One event as a table row."""
    kind = str(item.get("kind", ""))
    numbers = item.get("numbers") if isinstance(item.get("numbers"), dict) else {}
    recovered, cause = item.get("recovered"), item.get("explained_by")
    afterwards = []
    if recovered is not None:
        afterwards.append(t(f"dashboard.event.{'recovered' if recovered else 'lasting'}", lang=lang))
    if cause:
        by = t(f"diagnose.event.{cause}", lang=lang)
        afterwards.append(t("diagnose.event.explained", lang=lang, by=by))
    return {
        "kind": t(f"diagnose.event.{kind}", lang=lang),
        "code": kind,
        "metric": item.get("metric"),
        "step": item.get("step"),
        "until": item.get("until"),
        "afterwards": "; ".join(afterwards),
        "numbers": {
            t(f"diagnose.number.{key}", lang=lang): value
            for key, value in numbers.items()
            if key != "peak_step"
        },
        "openable": kind == "spike",
    }


ROUTES = [Route("/run/{run}/diagnosis", diagnosis)]
