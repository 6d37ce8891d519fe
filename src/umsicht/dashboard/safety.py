"""Who may read the pages: this machine's browser with the token, and nobody's script from elsewhere."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from umsicht.dashboard.templating import render
from umsicht.words import language

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
LOCAL_HOSTS = ("127.0.0.1", "localhost", "[::1]")
COOKIE = "umsicht"
_SAFE_METHODS = ("GET", "HEAD")


class Guard:
    """Refuses foreign hosts (DNS rebinding), foreign origins, and requests without the token; adds the security headers.

    The token comes once in the URL, moves into a cookie that scripts cannot read, and leaves the address bar by a redirect.
    """

    def __init__(
        self, app: ASGIApp, *, token: str, hosts: Iterable[str] = LOCAL_HOSTS, read_only: bool = False
    ) -> None:
        self.app = app
        self.token = token
        # Cookies ignore ports: a name of its own for each token lets two dashboards run side by side.
        self.cookie = f"{COOKIE}-{hashlib.sha256(token.encode()).hexdigest()[:8]}"
        self.hosts = frozenset(hosts)
        self.read_only = read_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        answer = self._refusal(scope)
        if answer is not None:
            await answer(scope, receive, self._with_headers(send))
            return
        await self.app(scope, receive, self._with_headers(send))

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if host.rpartition(":")[0] not in self.hosts and host not in self.hosts:
            return _page("host", 421)
        foreign = headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
        if scope["method"] not in _SAFE_METHODS:
            origin = headers.get("origin")
            if foreign or (origin is not None and origin.split("://")[-1] != host):
                return _page("origin", 403)
            if self.read_only:
                return _page("read_only", 403)
        return self._token_check(scope, headers)

    def _token_check(self, scope: Scope, headers: Headers) -> Response | None:
        if not self.token:
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = dict(query).get("token")
        if given is not None and hmac.compare_digest(given.encode(), self.token.encode()):
            rest = urlencode([pair for pair in query if pair[0] != "token"])
            here = scope["path"].rpartition("/")[2] or "./"
            answer = RedirectResponse(here + ("?" + rest if rest else ""), 303)
            answer.set_cookie(
                self.cookie, self.token, httponly=True, samesite="lax", path="/", max_age=30 * 86400
            )
            return answer
        if hmac.compare_digest(_cookie(headers, self.cookie).encode(), self.token.encode()):
            return None
        return _page("token", 403)

    def _with_headers(self, send: Send) -> Send:
        async def wrapped(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.setdefault("content-security-policy", CSP)
                headers.setdefault("cache-control", "no-store")
                headers["x-content-type-options"] = "nosniff"
                headers["referrer-policy"] = "same-origin"  # under no-referrer browsers post "Origin: null"
                headers["cross-origin-resource-policy"] = "same-origin"
                headers["cross-origin-opener-policy"] = "same-origin"
            await send(message)

        return wrapped


def _cookie(headers: Headers, name: str) -> str:
    try:
        jar = SimpleCookie(headers.get("cookie", ""))
    except CookieError:
        return ""
    return jar[name].value if name in jar else ""


def _page(reason: str, status: int) -> Response:
    return HTMLResponse(render("refused.html", language(), reason=reason), status)
