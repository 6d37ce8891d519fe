"""The decoded batch behind a mark on a curve."""

from __future__ import annotations

from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from umsicht.dashboard.context import entry_of, lang_of
from umsicht.dashboard.facts import Json
from umsicht.dashboard.pages.live import run_page
from umsicht.dashboard.templating import render
from umsicht.dashboard.unpack import unpack


def fragment(request: Request) -> Response:
    """The rows as markup, for the dialog on the live page."""
    rows, problem, step = _asked(request)
    return JSONResponse(
        {"html": render("_batch.html", lang_of(request), rows=rows, problem=problem, step=step)}
    )


def batch(request: Request) -> Response:
    """The same as a page of its own."""
    rows, problem, step = _asked(request)
    return run_page(request, "batch.html", "diagnosis", rows=rows, problem=problem, step=step)


def _asked(request: Request) -> tuple[list[Json], str, int]:
    step = int(request.path_params["step"])
    if step < 1:
        raise HTTPException(HTTPStatus.NOT_FOUND)
    rows, problem = unpack(entry_of(request).folder, step)
    return rows, problem, step


ROUTES = [Route("/run/{run}/batch/{step:int}", fragment), Route("/run/{run}/batch/{step:int}/page", batch)]
