"""One module a page: each reads records and fills a template."""

from __future__ import annotations

from starlette.routing import Route

from umsicht.dashboard.pages import (
    batch,
    checkpoints,
    compare,
    data,
    diagnosis,
    help,
    live,
    planner,
    ratings,
    runs,
    samples,
    series,
    sheet,
    tokenizer,
)

ROUTES: list[Route] = [
    route
    for module in (
        runs,
        live,
        series,
        batch,
        diagnosis,
        data,
        tokenizer,
        samples,
        checkpoints,
        sheet,
        compare,
        ratings,
        planner,
        help,
    )
    for route in module.ROUTES
]
