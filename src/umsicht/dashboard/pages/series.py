"""Curves as numbers: buckets of a fixed power-of-two grid, whole or only those that can have changed."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from umsicht.dashboard.buckets import Reduced
from umsicht.dashboard.context import entry_of, state
from umsicht.dashboard.curves import draw, restarts
from umsicht.dashboard.pages.live import AXES
from umsicht.record.columns import Columns

MOST_PIXELS = 2000
MOST_KEYS = 60


def series(request: Request) -> Response:
    """`?key=…&key=…&x=step|tokens|time&x0=&x1=&px=` and, to continue, `&width=&from=` of an earlier answer."""
    dashboard, entry = state(request), entry_of(request)
    columns = dashboard.columns(entry)
    if columns is None:
        return json_answer({"preparing": True})
    asked = request.query_params
    axis = asked.get("x", "step") if asked.get("x", "step") in AXES else "step"
    x0, x1 = number(asked.get("x0")), number(asked.get("x1"))
    pixels = int(min(MOST_PIXELS, max(16, number(asked.get("px")) or 600)))
    tag = etag(entry.folder, columns.n, str(request.url.query))
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"etag": tag, "cache-control": "no-cache"})
    start = number(asked.get("from"))
    made = answer(
        columns, asked.getlist("key")[:MOST_KEYS], axis, x0, x1, pixels, number(asked.get("width")), start
    )
    return json_answer(made, tag)


def answer(
    columns: Columns,
    keys: list[str],
    axis: str,
    x0: float | None,
    x1: float | None,
    pixels: int,
    known_width: float | None = None,
    start: float | None = None,
) -> dict[str, Any]:
    """The reduced series of `keys`. `partial` says that only buckets from `from` on are given, the rest being unchanged."""
    made: dict[str, Any] = {
        "axis": axis,
        "n": columns.n,
        "series": {},
        "old": {},
        "odd": {},
        "restarts": restarts(columns, axis),
    }
    whole = columns.axis(axis)
    made["range"] = [float(whole.min()), float(whole.max())] if columns.n else [0.0, 1.0]
    for key in keys:
        drawn = draw(columns, key, axis=axis, x0=x0, x1=x1, pixels=pixels)
        made["width"] = drawn.now.width
        partial = start is not None and known_width == drawn.now.width
        made["partial"] = partial
        made["from"] = start if partial else None
        made["series"][key] = packed(drawn.now, start if partial else None)
        if drawn.history.n_points:
            made["old"][key] = packed(drawn.history, None)
        if drawn.nonfinite:
            made["odd"][key] = drawn.nonfinite[:200]
    return made


def packed(reduced: Reduced, start: float | None) -> dict[str, Any]:
    """Bucket numbers and values; single precision keeps seven digits, more than any chart shows."""
    keep = reduced.index >= start if start is not None else np.ones(len(reduced.index), np.bool_)
    index, first, second = reduced.index[keep], reduced.first[keep], reduced.second[keep]
    made: dict[str, Any] = {"i": index, "a": first.astype(np.float32), "n": reduced.n_points}
    if not np.array_equal(first, second):
        made["b"] = second.astype(np.float32)
        made["l"] = reduced.last[keep].astype(np.float32)
    return made


def number(text: str | None) -> float | None:
    """A finite number from a query, or None."""
    try:
        value = float(text) if text else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def etag(*parts: object) -> str:
    return '"' + hashlib.sha256(repr(parts).encode()).hexdigest()[:20] + '"'


def json_answer(value: Any, tag: str = "") -> Response:
    headers = {"cache-control": "no-cache", **({"etag": tag} if tag else {})}
    body = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)
    return Response(body, media_type="application/json", headers=headers)


ROUTES = [Route("/run/{run}/series", series)]
