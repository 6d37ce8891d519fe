"""Ratings of text by people: blind, in the browser; results only when a round is closed.

The browser gets an item's texts and a random id, never a system, run or checkpoint; even the round is named by a number.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from umsicht.dashboard.context import Dashboard, lang_of, page, see_other, state
from umsicht.dashboard.facts import load_json, rendered
from umsicht.findings import UserError
from umsicht.ratings import Round, score

MOST_BODY_BYTES = 64_000
LONGEST_BREAK_S = 1800.0


def found_rounds(dashboard: Dashboard) -> dict[str, Path]:
    """Round folders by id, newest first; the id tells nothing of what is rated."""
    places: list[Path] = []
    for project in dashboard.index.projects():
        places += project.glob("ratings/*/round.json")
    for entry in dashboard.index.entries():
        places += entry.folder.glob("ratings/*/round.json")
    root = dashboard.root.resolve()
    inside = [path for path in dict.fromkeys(places) if path.resolve().is_relative_to(root)]
    inside.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    return {
        hashlib.sha256(str(path.parent.resolve()).encode()).hexdigest()[:10]: path.parent for path in inside
    }


def ratings(request: Request) -> Response:
    """The rounds: open ones first, with what is left to do; results of the closed ones."""
    lang = lang_of(request)
    shown = [described(round_id, folder, lang) for round_id, folder in found_rounds(state(request)).items()]
    shown = [item for item in shown if item is not None]
    return page(
        request, "ratings.html", section="ratings", rounds=sorted(shown, key=lambda item: item["closed"])
    )


def described(round_id: str, folder: Path, lang: str) -> dict[str, Any] | None:
    """A round as the list shows it; None where it cannot be read."""
    try:
        one = Round(folder)
        progress = one.progress()
    except (UserError, KeyError, TypeError, ValueError):
        return None
    result = load_json(folder / "result.json")
    return {
        "id": round_id,
        "name": folder.name if result else "",
        "kind": one.kind,
        "created": str(one.head.get("created", ""))[:10],
        "raters": [
            {"name": name, "done": done, "planned": planned} for name, (done, planned) in progress.items()
        ],
        "complete": one.is_complete,
        "closed": result is not None,
        "result": outcome(result, lang) if result else None,
        "criteria": [vars(criterion) for criterion in one.sheet.criteria] if one.kind == "scores" else [],
    }


def outcome(result: Mapping[str, Any], lang: str) -> dict[str, Any]:
    """A scored round; where the decision is refused, no system stands before another."""
    decision = str(result.get("decision", ""))
    refused = decision == "refused"
    words = [rendered(item, lang) for item in result.get("findings") or () if isinstance(item, dict)]
    return {
        "decision": decision,
        "better": result.get("better") or "",
        "tone": {"prefers": "good", "refused": "bad"}.get(decision, ""),
        "agreement": list((result.get("agreement") or {}).items()),
        "raters": result.get("raters") or [],
        "duels": [] if refused else result.get("duels") or [],
        "means": [] if refused else result.get("means") or [],
        "strengths": [] if refused else result.get("strengths") or [],
        "findings": [item for item in words if item is not None],
    }


def rate(request: Request) -> Response:
    """One item for one rater: the next that waits, or `?item=` to change an answer."""
    one, rater = opened(request)
    items = one.items(rater)
    answers = one.answers(rater)
    wanted = request.query_params.get("item")
    item = next((each for each in items if each.id == wanted), None) or next(
        (each for each in items if each.id not in answers), None
    )
    place = items.index(item) if item is not None else len(items)
    return page(
        request,
        "rate.html",
        section="ratings",
        item=item,
        place=place,
        total=len(items),
        done=len(answers),
        before=items[place - 1].id if 0 < place <= len(items) else None,
        kind=one.kind,
        criteria=[vars(criterion) for criterion in one.sheet.criteria],
        given=(answers.get(item.id) or {}).get("answer") if item is not None else None,
        rater=rater,
        hide_project=True,
    )


def opened(request: Request) -> tuple[Round, str]:
    """The round and rater of the URL; 404 where there is no such thing."""
    folder = found_rounds(state(request)).get(request.path_params["round"])
    if folder is None:
        raise HTTPException(HTTPStatus.NOT_FOUND)
    one, rater = Round(folder), request.path_params.get("rater", "")
    if rater and rater not in one.raters:
        raise HTTPException(HTTPStatus.NOT_FOUND)
    return one, rater


async def answer(request: Request) -> Response:
    """Take one answer and go on to the next item."""
    fields = await form(request)
    return await run_in_threadpool(_store, request, fields)


def _store(request: Request, fields: dict[str, str]) -> Response:
    one, rater = opened(request)
    item = fields.get("item", "")
    value: Any = fields.get("answer", "")
    if one.kind == "scores":
        value = {criterion.id: fields.get(criterion.id, "") for criterion in one.sheet.criteria}
    one.answer(rater, item, value, seconds=seconds_of(fields), note=fields.get("note", "")[:2000])
    return see_other("./")


def seconds_of(fields: Mapping[str, str]) -> float | None:
    """Time spent on the item as the page measured it; nonsense and long breaks are left out."""
    try:
        value = float(fields.get("seconds", ""))
    except ValueError:
        return None
    return value if 0 < value < LONGEST_BREAK_S else None


async def close(request: Request) -> Response:
    """Score a complete round, which closes it."""
    await form(request)
    await run_in_threadpool(lambda: score(opened(request)[0]))
    return see_other("../../ratings")


async def form(request: Request) -> dict[str, str]:
    """A small URL-encoded form; 413 where it is large."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BODY_BYTES:
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    try:
        fields = parse_qs(body.decode("utf-8"), keep_blank_values=True, max_num_fields=50)
    except ValueError as error:
        raise HTTPException(HTTPStatus.BAD_REQUEST) from error
    return {key: values[-1] for key, values in fields.items()}


ROUTES = [
    Route("/ratings", ratings),
    Route("/ratings/{round}/close", close, methods=["POST"]),
    Route("/ratings/{round}/{rater}/", rate),
    Route("/ratings/{round}/{rater}/answer", answer, methods=["POST"]),
]
