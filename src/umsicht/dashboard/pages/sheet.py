"""The measurement sheet and the recipe as it was resolved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from umsicht.dashboard.context import entry_of, facts_of, lang_of, state
from umsicht.dashboard.pages.live import run_page
from umsicht.dashboard.tables import baseline_rows, sheet


def sheet_page(request: Request) -> Response:
    """The page."""
    dashboard, entry, lang = state(request), entry_of(request), lang_of(request)
    columns = dashboard.columns(entry)
    if columns is None:
        return run_page(request, "live.html", "sheet", preparing=True)
    facts = facts_of(entry)
    return run_page(
        request,
        "sheet.html",
        "sheet",
        sheet=sheet(facts, columns, lang),
        baselines=baseline_rows(facts, columns),
        settings=list(flat(facts.recipe)),
    )


def flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every setting as `a.b` and its value as text; lists of mappings are numbered."""
    for key, value in settings.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{name}.")
        elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
            for number, item in enumerate(value):
                yield from flat(item if isinstance(item, Mapping) else {"": item}, f"{name}[{number}].")
        else:
            yield name, "–" if value is None else str(value)


ROUTES = [Route("/run/{run}/sheet", sheet_page)]
