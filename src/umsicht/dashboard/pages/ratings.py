"""Ratings of text by people: blind, in the browser; results only when a round is closed."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from umsicht.dashboard.context import page


def ratings(request: Request) -> Response:
    """The list of rounds."""
    return page(request, "ratings.html", section="ratings", rounds=[])


ROUTES = [Route("/ratings", ratings)]
