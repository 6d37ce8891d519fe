"""What every page knows: the folder, the readers, the language and theme of whoever asks."""

from __future__ import annotations

from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from umsicht.dashboard.curves import with_gap
from umsicht.dashboard.facts import RunFacts
from umsicht.dashboard.index import Entry, Index
from umsicht.dashboard.prepare import DIAGNOSIS, SUMMARY, cached, keep, stamp
from umsicht.dashboard.summary import summarise
from umsicht.dashboard.tail import Tails
from umsicht.dashboard.templating import render
from umsicht.dashboard.worker import Worker
from umsicht.record.columns import Columns
from umsicht.record.metrics import spell
from umsicht.words import LANGUAGES, catalogue, language

DIRECT_BYTES = 3_000_000
PREFERENCES = {"lang": LANGUAGES, "theme": ("light", "dark", "auto")}
VENDOR = Path(__file__).parent / "_vendor"


@dataclass
class Dashboard:
    """The server's state: one index, a bounded set of readers, one worker."""

    root: Path
    read_only: bool = False
    index: Index = field(init=False)
    tails: Tails = field(default_factory=Tails)
    worker: Worker = field(default_factory=Worker)

    def __post_init__(self) -> None:
        self.index = Index(self.root)

    def columns(self, entry: Entry) -> Columns | None:
        """A run's columns with the gap; None while so much is unread that the worker must prepare it first."""
        tail = self.tails.of(entry.folder / "metrics.jsonl")
        if tail.unread_bytes() > DIRECT_BYTES:
            self.worker.ask([entry.folder])
            return None
        return with_gap(tail.columns())

    def summary(self, entry: Entry) -> dict[str, Any] | None:
        """The run's figures for the list. An outdated one is renewed here where little was appended, else by the worker."""
        known, is_fresh = cached(entry.folder, SUMMARY)
        if is_fresh:
            return known
        made_from = stamp(entry.folder)
        tail = self.tails.of(entry.folder / "metrics.jsonl")
        if tail.unread_bytes() > DIRECT_BYTES:
            self.worker.ask([entry.folder])
            return known
        made = summarise(tail.columns(), entry.manifest)
        try:
            keep(entry.folder, SUMMARY, made, made_from)
        except OSError:
            return made
        return made

    def diagnosis(self, entry: Entry, lang: str) -> tuple[dict[str, Any] | None, bool]:
        """The cached verdict in `lang` and whether it covers the newest rows; the worker is asked for a newer one."""
        known, is_fresh = cached(entry.folder, DIAGNOSIS)
        found = (known or {}).get(lang)
        if not is_fresh or lang not in (known or {}):
            self.worker.ask([entry.folder], lang)
        return (found if isinstance(found, dict) else None), is_fresh


def state(request: Request) -> Dashboard:
    """The server's state."""
    found: Dashboard = request.app.state.dashboard
    return found


def entry_of(request: Request) -> Entry:
    """The run that the URL names; 404 where there is none."""
    entry = state(request).index.get(request.path_params["run"])
    if entry is None:
        raise HTTPException(HTTPStatus.NOT_FOUND)
    return entry


def facts_of(entry: Entry) -> RunFacts:
    return RunFacts(entry.folder, entry.manifest)


def lang_of(request: Request) -> str:
    """?lang, else the cookie, else the browser's first known language, else the server's."""
    for value in (request.query_params.get("lang"), request.cookies.get("umsicht-lang")):
        if value in LANGUAGES:
            return value
    for part in request.headers.get("accept-language", "").split(","):
        code = part.split(";")[0].strip().lower()[:2]
        if code in LANGUAGES:
            return code
    return language()


def theme_of(request: Request) -> str:
    value = request.query_params.get("theme") or request.cookies.get("umsicht-theme", "")
    return value if value in ("light", "dark") else "auto"


def up(request: Request) -> str:
    """The relative way from this page to the server's root, so that proxies with a prefix need no configuration."""
    inner = request.url.path.removeprefix(request.scope.get("root_path", "")).lstrip("/")
    return "../" * inner.count("/") or "./"


def js_words(lang: str) -> str:
    """The sentences that the scripts need, as JSON that cannot end its script element."""
    words = {
        key.removeprefix("js."): text
        for key, text in catalogue(lang, "dashboard").items()
        if key.startswith("js.")
    }
    return embedded({"lang": lang, **words})


def embedded(value: Any) -> str:
    """JSON to put inside a script element."""
    return orjson.dumps(spell(value), option=orjson.OPT_NON_STR_KEYS).decode().replace("<", "\\u003c")


def page(
    request: Request, template: str, *, status: int = 200, section: str = "", **context: Any
) -> Response:
    """Answer with a page; a `?lang=` or `?theme=` is remembered in a cookie."""
    dashboard = state(request)
    lang = lang_of(request)
    text = render(
        template,
        lang,
        up=up(request),
        theme=theme_of(request),
        here=request.url.path.rpartition("/")[2] or "./",
        query=[(k, v) for k, v in request.query_params.multi_items() if k not in PREFERENCES],
        project="" if context.pop("hide_project", False) else dashboard.root.resolve().name,
        read_only=dashboard.read_only,
        section=section,
        page_id=template.removesuffix(".html"),
        js_words=js_words(lang),
        has_uplot=(VENDOR / "uPlot.esm.js").is_file(),
        **context,
    )
    answer = HTMLResponse(text, status)
    remember(request, answer)
    return answer


def remember(request: Request, answer: Response) -> None:
    for name, allowed in PREFERENCES.items():
        value = request.query_params.get(name)
        if value in allowed:
            answer.set_cookie(f"umsicht-{name}", value, samesite="lax", path="/", max_age=365 * 86400)


def see_other(where: str) -> Response:
    return RedirectResponse(where, 303)
