"""The walk that must never break: the page opens, curves are drawn with every spike, rows appear live, text stays text."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.dashboard.browser import AXE, CHROMIUM, Tab, chromium, serving
from tests.dashboard.records import SPIKES, lines, make_round, make_run, row

from umsicht.dashboard.context import VENDOR

pytest.importorskip("playwright", reason="Playwright for Python is not installed: browser tests are skipped")
pytestmark = [
    pytest.mark.skipif(
        not CHROMIUM.exists(), reason="/usr/bin/chromium is not there: browser tests are skipped"
    ),
    pytest.mark.skipif(
        not (VENDOR / "uPlot.esm.js").exists(),
        reason="uPlot was not fetched (python hatch_build.py): browser tests are skipped",
    ),
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    make_run(folder, "first", resume_at=600, overfit=True)
    make_run(folder, "broken", steps=300, nan_at=250)
    make_round(folder)
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as made:
        yield made


def test_a_run_in_the_browser(project: Path, browser: Any) -> None:
    with serving(project, token="open sesame") as url:
        tab = Tab(browser)
        page = tab.page
        page.goto(f"{url}?token=open%20sesame")
        assert "token" not in page.url
        page.locator("a.run-link", has_text="first").click()
        chart = page.locator("#chart-loss")
        chart.locator(".uplot").wait_for(timeout=60_000)

        assert chart.locator(".event.spike").count() in (0, len(SPIKES))
        chart.locator("details.behind summary").click()
        steps, high = (
            [float(cell.replace(",", "")) for cell in chart.locator(f"tbody {cells}").all_inner_texts()]
            for cells in (
                "tr:not(:has(td:nth-child(3):text-is('–'))) th",
                "td:nth-child(3):not(:text-is('–'))",
            )
        )
        drawn = [step for step, value in zip(steps, high, strict=True) if step > 100 and value > 5.5]
        assert [round(step / 2) for step in drawn] == [spike // 2 for spike in SPIKES], (
            "every planted spike is a drawn maximum"
        )
        assert page.locator("#top .verdict").inner_text()

        with (project / "runs" / "first" / "metrics.jsonl").open("ab") as file:
            file.write(lines(row(step, random.Random(2), segment=1) for step in range(1200, 1300)))
        appended = time.monotonic()
        page.locator("#top .tile dd", has_text="1,299").wait_for(timeout=60_000)
        tab.until("document.querySelector('#chart-loss').dataset.drawn > 1400")
        assert time.monotonic() - appended < 60

        page.goto(f"{url}run/first/samples")
        assert page.locator("main img").count() == 0
        assert "<img src=x onerror=alert(1)>" in page.locator(".said").first.inner_text()

        page.goto(f"{url}run/broken/")
        assert "step 250" in page.locator("[role=alert]").inner_text()
        page.locator("#chart-loss .event.nonfinite").first.wait_for(timeout=60_000)
        assert tab.foreign == [] and tab.complaints == []
        tab.close()


@pytest.mark.skipif(
    not AXE.exists(), reason="axe-core is not there (npm ci in web/): accessibility is not checked"
)
def test_the_live_page_is_accessible(project: Path, browser: Any) -> None:
    with serving(project) as url:
        tab = Tab(browser)
        tab.page.goto(f"{url}run/first/")
        tab.page.locator("#chart-loss .uplot").wait_for(timeout=60_000)
        assert tab.axe() == []
        tab.close()


def test_rating_by_keys_names_nobody(project: Path, browser: Any) -> None:
    with serving(project) as url:
        tab = Tab(browser)
        seen: list[str] = []
        tab.page.on(
            "response",
            lambda answer: (
                seen.append(answer.text()) if "ratings" in answer.url and answer.status == 200 else None
            ),
        )
        tab.page.goto(f"{url}ratings")
        tab.page.locator("a.button").first.click()
        for _ in range(2):
            before = tab.page.locator("input[name=item]").get_attribute("value")
            tab.press("3")
            tab.until(
                f"document.querySelector('input[name=item]')?.value > '' && document.querySelector('input[name=item]').value !== '{before}'"
            )
        tab.press("u")
        tab.page.wait_for_url("**?item=*")
        assert tab.page.locator("[value=right][aria-pressed=true]").count() == 1
        assert seen and not any("x-one" in text or "x-two" in text for text in seen)
        tab.close()
