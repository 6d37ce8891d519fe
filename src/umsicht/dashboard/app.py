"""The server: routes, static files, and the three lines a person reads when it starts."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from umsicht.dashboard import pages
from umsicht.dashboard.context import VENDOR, Dashboard, page
from umsicht.dashboard.safety import LOCAL_HOSTS, Guard
from umsicht.findings import UserError

STATIC = Path(__file__).parent / "static"


class CachedFiles(StaticFiles):
    """Static files that a browser asks for again only with their ETag."""

    async def check_config(self) -> None:
        """Without npm there is no folder of chart files: its paths answer 404, and the pages draw without them."""

    def file_response(self, *args: object, **kwargs: object) -> Response:
        answer = super().file_response(*args, **kwargs)  # type: ignore[arg-type]  # passed through unchanged
        answer.headers["cache-control"] = "no-cache"
        return answer


def create_app(
    root: Path, *, token: str = "", read_only: bool = False, hosts: Iterable[str] = LOCAL_HOSTS
) -> Starlette:
    """The ASGI application for the runs below `root`. An empty `token` asks for none (tests, or a proxy that authenticates)."""
    dashboard = Dashboard(root, read_only)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        dashboard.worker.close()

    routes = [
        *pages.ROUTES,
        Mount("/static", CachedFiles(directory=STATIC), name="static"),
        Mount("/vendor", CachedFiles(directory=VENDOR, check_dir=False), name="vendor"),
    ]
    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        middleware=[
            Middleware(Guard, token=token, hosts=hosts, read_only=read_only),
            Middleware(GZipMiddleware, minimum_size=800, compresslevel=5),
        ],
        exception_handlers={HTTPException: _http_error, UserError: _user_error},
    )
    app.state.dashboard = dashboard
    return app


def _http_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return page(request, "error.html", status=status, code=status, what="", why="", fix="")


def _user_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, UserError)
    return page(request, "error.html", status=400, code=400, what=error.what, why=error.why, fix=error.fix)


def free_port(host: str) -> int:
    """A port that nobody listens on."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def new_token() -> str:
    return secrets.token_urlsafe(18)


def tunnel_line(port: int) -> str:
    """The `ssh -L` command for people who are logged in from elsewhere; empty where they are not."""
    connection = os.environ.get("SSH_CONNECTION", "").split()
    if len(connection) < 3:
        return ""
    user = os.environ.get("USER") or os.environ.get("LOGNAME") or "user"
    return f"ssh -N -L {port}:127.0.0.1:{port} {user}@{connection[2]}"


def run_server(app: Starlette, *, host: str, port: int, root_path: str = "") -> None:
    """Serve until interrupted."""
    import uvicorn

    uvicorn.run(
        app,
        host=host,
        port=port,
        root_path=root_path,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=2,
    )
