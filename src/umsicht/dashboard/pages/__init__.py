"""One module a page: each reads records and fills a template."""

from __future__ import annotations

from starlette.routing import Route

from umsicht.dashboard.pages import live, runs, series

ROUTES: list[Route] = [*runs.ROUTES, *live.ROUTES, *series.ROUTES]
