"""A real browser against a real server: Debian's Chromium, no downloads, every foreign request aborted and remembered."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import uvicorn

from umsicht.dashboard.app import create_app, free_port

CHROMIUM = Path("/usr/bin/chromium")
ROOT = Path(__file__).resolve().parents[2]
AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--no-first-run",
]


@contextmanager
def serving(folder: Path, **options: Any) -> Iterator[str]:
    """The dashboard of `folder` on a free port of this machine."""
    port = free_port("127.0.0.1")
    config = uvicorn.Config(create_app(folder, **options), host="127.0.0.1", port=port, log_level="error")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 20
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.should_exit = True
        thread.join(10)


@contextmanager
def chromium() -> Iterator[Any]:
    """The browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


class Tab:
    """One page that notes foreign requests and every complaint of the browser."""

    def __init__(self, browser: Any, **context: Any) -> None:
        self.context = browser.new_context(
            **{"viewport": {"width": 1280, "height": 900}, "locale": "en-GB", **context}
        )
        self.context.set_default_timeout(120_000)
        self.page = self.context.new_page()
        self.foreign: list[str] = []
        self.complaints: list[str] = []
        self.context.route("**/*", self._route)
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _route(self, route: Any) -> None:
        if urlsplit(route.request.url).hostname in ("127.0.0.1", None):
            route.continue_()
        else:
            self.foreign.append(route.request.url)
            route.abort()

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def until(self, condition: str, seconds: float = 60) -> None:
        """Wait for a condition without asking the page to evaluate strings, which its security policy forbids."""
        end = time.monotonic() + seconds
        while not self._holds(condition):
            assert time.monotonic() < end, condition
            self.page.wait_for_timeout(50)

    def press(self, key: str) -> None:
        """Press a key once the page's scripts listen."""
        self.until("document.readyState === 'complete'")
        self.page.keyboard.press(key)

    def _holds(self, condition: str) -> bool:
        """A condition of the page; between two pages nothing holds yet."""
        from playwright.sync_api import Error

        try:
            return bool(self.page.evaluate(condition))
        except Error as error:
            if "context was destroyed" in str(error):
                return False
            raise

    def axe(self) -> list[str]:
        """Serious and critical violations, each as one line."""
        self.page.evaluate(AXE.read_text("utf-8"))
        result = self.page.evaluate(
            "async () => (await axe.run(document, {resultTypes: ['violations']})).violations"
        )
        return [
            f"{item['id']}: {node['html'][:160]} {node['failureSummary'][:160]}"
            for item in result
            if item["impact"] in ("serious", "critical")
            for node in item["nodes"]
        ]

    def close(self) -> None:
        self.context.close()
