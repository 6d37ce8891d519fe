"""What a run costs before it is started: tokens, hours, money, with checkpoints and one restart; measured beside assumed."""

from __future__ import annotations

from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from umsicht.dashboard.context import Dashboard, embedded, page, state
from umsicht.dashboard.facts import RunFacts, load_json, mapping
from umsicht.dashboard.planning import Assumptions, estimate
from umsicht.record import Store


def planner(request: Request) -> Response:
    """The page; works without script too, by submitting the form."""
    dashboard = state(request)
    measured = measurements(dashboard)
    given = {name: request.query_params.get(name) for name in Assumptions.__dataclass_fields__}
    chosen = Assumptions.read(given, measured)
    return page(
        request,
        "planner.html",
        section="planner",
        measured=measured,
        chosen=chosen,
        result=estimate(chosen),
        plan=newest_plan(dashboard),
        planner_json=embedded({"measured": measured}),
    )


def measurements(dashboard: Dashboard) -> dict[str, Any]:
    """What the newest run on this machine showed: parameters, throughput, checkpoint size."""
    for entry in dashboard.index.entries():
        columns = dashboard.columns(entry)
        rates = columns.series.get("train/tokens_per_s") if columns is not None else None
        if columns is None or rates is None or not len(rates.values):
            continue
        facts = RunFacts(entry.folder, entry.manifest)
        model = mapping(entry.manifest.get("model"))
        counted = model.get("n_parameters")
        parameters = mapping(counted).get("all") if isinstance(counted, dict) else counted
        whole = [item.bytes for item in facts.checkpoints if item.whole]
        corpus = facts.artifact("tokens")
        return {
            "run": entry.id,
            "parameters": parameters if isinstance(parameters, int) else None,
            "tokens_per_s": float(np.nanmedian(rates.values[-500:])),
            "checkpoint_bytes": max(whole, default=None),
            "tokens": float(columns.tokens[-1]) if columns.n else None,
            "usable_tokens": _usable(corpus[2] if corpus else {}),
        }
    return {}


def _usable(report: dict[str, Any]) -> float | None:
    for value in (
        mapping(report.get("train")).get("tokens"),
        report.get("train_tokens"),
        report.get("n_tokens"),
    ):
        if isinstance(value, (int, float)):
            return float(value)
    return None


def newest_plan(dashboard: Dashboard) -> dict[str, Any] | None:
    """The report of the newest plan artifact in the folder."""
    found = []
    for project in dashboard.index.projects():
        for artifact in Store(project / "artifacts").artifacts():
            if artifact.kind == "plan":
                found.append((str(artifact.manifest.get("created", "")), artifact.path))
    if not found:
        return None
    path = max(found)[1]
    report = load_json(path / "report.json")
    return {"name": path.name, "rows": plan_rows(report)} if report else None


def plan_rows(report: dict[str, Any]) -> list[tuple[str, Any]]:
    """The plan's numbers, flattened, in its own names."""
    rows: list[tuple[str, Any]] = []
    for key, value in report.items():
        if key == "findings":
            continue
        if isinstance(value, dict):
            rows += [
                (f"{key}.{inner}", number)
                for inner, number in value.items()
                if isinstance(number, (int, float, str))
            ]
        elif isinstance(value, (int, float, str)):
            rows.append((key, value))
    return rows


ROUTES = [Route("/planner", planner)]
