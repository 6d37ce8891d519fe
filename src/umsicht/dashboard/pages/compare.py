"""Compare runs: first what differs between them, then their curves on one grid, then the figures at an equal point."""

from __future__ import annotations

from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from umsicht.dashboard import comparing
from umsicht.dashboard.context import Dashboard, embedded, facts_of, lang_of, page, state
from umsicht.dashboard.index import Entry
from umsicht.dashboard.pages.live import AXES
from umsicht.dashboard.pages.series import etag, json_answer, number
from umsicht.dashboard.pages.sheet import flat
from umsicht.dashboard.svg import Line, line_chart
from umsicht.record.columns import Columns
from umsicht.words import t

MOST_RUNS = 64
DEFAULT_RUNS = 8
PREFERRED = ("val/all/bpb", "val/all/loss", "train/loss")


def compare(request: Request) -> Response:
    """The page. `?run=…&run=…&key=…&x=…`; without runs the newest eight are proposed."""
    dashboard, lang = state(request), lang_of(request)
    entries = dashboard.index.entries()
    asked = request.query_params.getlist("run")
    chosen = [entry for name in asked[:MOST_RUNS] for entry in entries if entry.id == name] or entries[
        :DEFAULT_RUNS
    ]
    loaded = load(dashboard, chosen)
    keys = sorted({key for columns in loaded.values() for key in columns.series})
    key = request.query_params.get("key", "")
    key = key if key in keys else next((name for name in PREFERRED if name in keys), keys[0] if keys else "")
    axis = request.query_params.get("x", "step")
    axis = axis if axis in AXES else "step"
    settings = {entry.id: dict(flat(facts_of(entry).recipe)) for entry in chosen}
    found, equal = comparing.differences(list(settings.values())) if len(settings) > 1 else ([], 0)
    groups = comparing.seed_groups(settings)
    return page(
        request,
        "compare.html",
        section="compare",
        all_runs=[entry.id for entry in entries],
        chosen=[entry.id for entry in chosen],
        differences=found,
        n_changes=sum(item.is_change for item in found),
        n_equal=equal,
        groups=[group for group in groups if len(group) > 1],
        keys=keys,
        key=key,
        axis=axis,
        svg=still(loaded, key, axis, lang) if key else "",
        table=final_table(loaded, groups, key, axis),
        preparing=len(loaded) < len(chosen),
        chart_json=embedded(script_data(chosen, groups, key, axis)),
    )


def load(dashboard: Dashboard, entries: list[Entry]) -> dict[str, Columns]:
    """Columns of the runs that are ready; the others are asked of the worker."""
    found = {}
    for entry in entries:
        columns = dashboard.columns(entry)
        if columns is not None:
            found[entry.id] = columns
    return found


def script_data(chosen: list[Entry], groups: list[list[str]], key: str, axis: str) -> dict[str, Any]:
    """What the script needs: six runs with a colour each, the rest as one envelope."""
    names = [entry.id for entry in chosen]
    shown = names[: comparing.HIGHLIGHTED]
    return {
        "axis": axis,
        "key": key,
        "runs": names,
        "chart": {
            "id": "compare",
            "title": key,
            "unit": "",
            "log": None,
            "limit": None,
            "curves": [
                {"key": name, "label": name, "slot": slot, "dots": False} for slot, name in enumerate(shown)
            ],
        },
        "rest": len(names) - len(shown),
        "groups": [group for group in groups if len(group) > 1],
    }


def still(loaded: dict[str, Columns], key: str, axis: str, lang: str) -> str:
    """The overlay without script: the highlighted runs as lines."""
    width = comparing.common_width(loaded.values(), axis, 300)
    lines = []
    for slot, (name, columns) in enumerate(list(loaded.items())[: comparing.HIGHLIGHTED]):
        grid = comparing.on_grid(columns, key, axis, width)
        lines.append(Line(name, [bucket * width for bucket in grid], list(grid.values()), slot=slot))
    return line_chart(
        lines,
        title=key,
        summary="",
        lang=lang,
        x_label=t(f"dashboard.axis.{axis}", lang=lang),
        width=1080,
        height=320,
    )


def final_table(loaded: dict[str, Columns], groups: list[list[str]], key: str, axis: str) -> dict[str, Any]:
    """Each run's figure at the last x that all have reached; mean and deviation of a seed group, n always shown."""
    x = comparing.last_shared(list(loaded.values()), key, axis) if loaded else None
    rows: list[dict[str, Any]] = []
    for name, columns in loaded.items():
        value = comparing.value_at(columns, key, axis, x) if x is not None else None
        rows.append({"run": name, "value": value, "last": columns.last(key), "n": columns.n})
    seeds = []
    for group in groups:
        values = [row["value"] for row in rows if row["run"] in group and row["value"] is not None]
        if len(values) > 1:
            seeds.append(
                {
                    "runs": group,
                    "mean": float(np.mean(values)),
                    "sd": float(np.std(values, ddof=1)),
                    "n": len(values),
                }
            )
    return {"x": x, "rows": rows, "seeds": seeds}


def series(request: Request) -> Response:
    """`?run=…&key=…&x=…&px=…`: highlighted runs as series, seed groups as bands, the rest as an envelope."""
    dashboard = state(request)
    asked = request.query_params
    names = asked.getlist("run")[:MOST_RUNS]
    entries = [entry for name in names for entry in dashboard.index.entries() if entry.id == name]
    loaded = load(dashboard, entries)
    tag = etag([(name, columns.n) for name, columns in loaded.items()], str(request.url.query))
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"etag": tag, "cache-control": "no-cache"})
    axis = asked.get("x", "step") if asked.get("x", "step") in AXES else "step"
    settings = {entry.id: dict(flat(facts_of(entry).recipe)) for entry in entries if entry.id in loaded}
    groups = [group for group in comparing.seed_groups(settings) if len(group) > 1]
    pixels = int(min(1600, max(16, number(asked.get("px")) or 800)))
    made = overlay(loaded, groups, asked.get("key", ""), axis, pixels)
    made["missing"] = len(entries) - len(loaded)
    return json_answer(made, tag)


def overlay(
    loaded: dict[str, Columns], groups: list[list[str]], key: str, axis: str, pixels: int
) -> dict[str, Any]:
    """Curves on one common power-of-two grid."""
    width = comparing.common_width(loaded.values(), axis, pixels)
    shown = list(loaded)[: comparing.HIGHLIGHTED]
    packs = {
        name: pack
        for name in shown
        if (pack := comparing.packed_run(loaded[name], key, axis, width)) is not None
    }
    rest = [
        comparing.on_grid(columns, key, axis, width) for name, columns in loaded.items() if name not in shown
    ]
    bands = []
    for group in groups:
        spread = comparing.band(
            (comparing.on_grid(loaded[name], key, axis, width) for name in group), spread=True
        )
        if spread is not None:
            bands.append(
                {
                    **spread,
                    "runs": group,
                    "n": len(group),
                    "slot": shown.index(group[0]) if group[0] in shown else None,
                }
            )
    ends = [float(columns.axis(axis).max()) for columns in loaded.values() if columns.n]
    return {
        "axis": axis,
        "width": width,
        "range": [0.0, max(ends, default=1.0)],
        "series": packs,
        "old": {},
        "odd": {},
        "restarts": [],
        "partial": False,
        "rest": comparing.band(rest, spread=False),
        "n_rest": len(rest),
        "bands": bands,
    }


ROUTES = [Route("/compare", compare), Route("/api/compare", series)]
