"""`umsicht dashboard`: runs, verdicts and text in the browser."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from umsicht.findings import UserError
from umsicht.words import t


def dashboard(
    folder: Path = Path(),
    *,
    port: int = 0,
    host: str = "127.0.0.1",
    browser: Annotated[bool, Parameter(negative="--no-browser")] = True,
    read_only: bool = False,
    root_path: str = "",
    allow_host: tuple[str, ...] = (),
) -> None:
    """See runs, verdicts and text in the browser. Everything stays on this machine: no request goes anywhere else.

    Parameters
    ----------
    folder
        A project, a folder of projects, a `runs` folder, or one run.
    port
        The port to listen on; 0 takes a free one.
    host
        The address to listen on. Anything but this machine's own lets others in who have the token.
    browser
        Open the page in the browser of this desktop.
    read_only
        Show everything, change nothing: for sharing.
    root_path
        The path prefix of a proxy in front, such as `/user/me/proxy/8000`.
    allow_host
        Names under which a proxy calls this server.
    """
    try:
        from umsicht.dashboard.app import create_app, free_port, new_token, run_server, tunnel_line
        from umsicht.dashboard.safety import LOCAL_HOSTS
    except ImportError as error:
        raise UserError(
            t("dashboard.missing", name=error.name or ""),
            why=t("dashboard.missing.why"),
            fix="pip install 'umsicht[dashboard]'",
        ) from error
    if not folder.is_dir():
        raise UserError(t("dashboard.no_folder", folder=folder), fix=t("dashboard.no_folder.fix"))
    chosen, token = port or free_port(host), new_token()
    shown = f"[{host}]" if ":" in host else host
    app = create_app(folder, token=token, read_only=read_only, hosts=(*LOCAL_HOSTS, shown, *allow_host))
    url = f"http://{shown}:{chosen}/?token={token}"
    print(t("dashboard.serving", url=url), flush=True)
    tunnel = tunnel_line(chosen)
    if tunnel:
        print(t("dashboard.tunnel", command=tunnel), flush=True)
    elif browser and host in LOCAL_HOSTS:
        webbrowser.open(url)
    print(t("dashboard.stop"), flush=True)
    run_server(app, host=host, port=chosen, root_path=root_path)
