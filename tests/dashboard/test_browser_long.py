"""Every page in both themes, both languages and two widths; keyboard only; axe; fifty runs; the report from disk."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.dashboard.browser import AXE, CHROMIUM, ROOT, Tab, chromium, serving
from tests.dashboard.records import lines, make_round, make_run, row

from umsicht.dashboard import report
from umsicht.dashboard.context import VENDOR
from umsicht.dashboard.prepare import prepare

pytest.importorskip("playwright", reason="Playwright for Python is not installed: browser tests are skipped")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not CHROMIUM.exists(), reason="/usr/bin/chromium is not there: browser tests are skipped"
    ),
    pytest.mark.skipif(
        not (VENDOR / "uPlot.esm.js").exists(),
        reason="uPlot was not fetched (python hatch_build.py): browser tests are skipped",
    ),
]
SCREENS = ROOT / "build" / "screens"
RUN_PAGES = ("", "diagnosis", "data", "tokenizer", "samples", "checkpoints", "sheet", "report")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as made:
        yield made


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mein-modell")
    make_run(folder, "first", resume_at=600, overfit=True)
    make_run(folder, "second", steps=700)
    make_run(folder, "broken", steps=300, nan_at=250)
    make_round(folder)
    for run in (folder / "runs").iterdir():
        prepare(run)
    return folder


def pages(tab: Tab, url: str) -> list[str]:
    tab.page.goto(f"{url}ratings")
    rating = tab.page.locator("a.button").first.get_attribute("href")
    return [
        "",
        "compare?run=first&run=second",
        "ratings",
        str(rating),
        "planner",
        "help",
        "nothing-here",
        *(f"run/first/{name}" for name in RUN_PAGES),
        "run/broken/",
    ]


@pytest.mark.parametrize("lang", ["en", "de"])
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_every_page_is_whole_accessible_and_photographed(
    project: Path, browser: Any, lang: str, theme: str, width: int
) -> None:
    SCREENS.mkdir(parents=True, exist_ok=True)
    wrong: list[str] = []
    with serving(project) as url:
        tab = Tab(browser, locale=lang, color_scheme=theme, viewport={"width": width, "height": 900})
        for place in pages(tab, url):
            tab.page.goto(url + place)
            tab.page.wait_for_timeout(700)
            name = (
                (place.split("?")[0].strip("/").replace("/", "-") or "runs")
                if "ratings/" not in place
                else "rate"
            )
            tab.page.screenshot(path=str(SCREENS / f"{name}-{theme}-{lang}-{width}.png"), full_page=True)
            sideways = tab.page.evaluate(
                "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
            if sideways > 1:
                wrong.append(f"{place}: {sideways} px wider than the window")
            if AXE.exists() and place != "run/first/report":
                wrong += [f"{place}: {line}" for line in tab.axe()]
        assert tab.foreign == []
        assert [line for line in tab.complaints if "404" not in line] == []
        tab.close()
    assert wrong == []


def test_the_keyboard_alone_is_enough(project: Path, browser: Any) -> None:
    with serving(project) as url:
        tab = Tab(browser)
        page = tab.page
        page.goto(url)
        page.wait_for_timeout(400)
        tab.press("j")
        tab.press("x")
        tab.press("j")
        tab.press("x")
        assert page.locator("#rows input:checked").count() == 2
        tab.press("Enter")
        page.wait_for_url("**/run/**")
        page.locator("#chart-loss .uplot").wait_for(timeout=60_000)
        page.locator("#chart-loss").focus()
        tab.press("ArrowLeft")
        assert page.locator("#chart-loss .readout").inner_text()
        tab.press("+")
        tab.until("location.hash.includes('x0')")
        tab.press("0")
        tab.until("!location.hash.includes('x0')")
        tab.press("t")
        page.locator("#chart-loss .table-here tbody tr").first.wait_for()
        tab.press("p")
        assert page.locator("#pause").get_attribute("aria-pressed") == "true"
        for letter, ending in (("d", "/diagnosis"), ("s", "/samples"), ("c", "/compare"), ("r", "/")):
            if letter == "s":
                tab.press("g")
                tab.press("l")
                tab.until("/run\\/[^/]+\\/$/.test(location.pathname) && document.readyState === 'complete'")
            tab.press("g")
            tab.press(letter)
            tab.until(f"location.pathname.endsWith('{ending}') && document.readyState === 'complete'")
        tab.press("?")
        assert page.locator("#keys-dialog[open]").count() == 1
        tab.press("Escape")
        page.goto(f"{url}run/first/samples")
        page.wait_for_timeout(300)
        tab.press("[")
        page.wait_for_url("**?at=500*")
        page.goto(url)
        tab.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        tab.close()


def test_fifty_runs(tmp_path: Path, browser: Any) -> None:
    rng = random.Random(0)
    for number in range(50):
        folder = make_run(tmp_path, f"run-{number:02d}", steps=20)
        (folder / "metrics.jsonl").write_bytes(lines(row(step, rng) for step in range(400)))
    with serving(tmp_path) as url:
        tab = Tab(browser)
        tab.page.goto(url)
        tab.page.locator("tr[data-run]").nth(49).wait_for()
        tab.page.goto(f"{url}compare?" + "&".join(f"run=run-{n:02d}" for n in range(50)))
        tab.page.locator("#chart-compare .uplot").wait_for(timeout=30_000)
        assert tab.page.locator("#chart-compare .legend li").count() == 6
        assert "44" in tab.page.locator("#chart-compare").inner_text()
        assert tab.complaints == []
        tab.close()


def test_the_report_opens_from_disk_without_a_network(project: Path, browser: Any, tmp_path: Path) -> None:
    written = report(project / "runs" / "first", tmp_path / "report.html", lang="en")
    for theme in ("light", "dark"):
        context = browser.new_context(
            offline=True, color_scheme=theme, viewport={"width": 1280, "height": 900}
        )
        page = context.new_page()
        asked: list[str] = []
        page.on("request", lambda request, asked=asked: asked.append(request.url))
        page.goto(written.as_uri())
        assert page.locator("main[lang=en]").is_visible() and page.locator("main[lang=de]").is_hidden()
        page.locator("label[for=lang-de]").click()
        assert page.locator("main[lang=de]").is_visible()
        assert page.locator("main[lang=de] svg.chart").count() >= 8
        page.screenshot(path=str(SCREENS / f"report-file-{theme}.png"), full_page=True)
        if AXE.exists():
            page.evaluate(AXE.read_text("utf-8"))
            found = page.evaluate(
                "async () => (await axe.run()).violations.filter(v => ['serious', 'critical'].includes(v.impact)).map(v => v.id)"
            )
            assert found == []
        assert asked == [written.as_uri()]
        context.close()


def test_without_script_everything_can_still_be_read(project: Path, browser: Any) -> None:
    with serving(project) as url:
        tab = Tab(browser, java_script_enabled=False)
        tab.page.goto(f"{url}run/first/?x=tokens")
        assert tab.page.locator("svg.chart").count() >= 6 and tab.page.locator(".verdict").is_visible()
        tab.page.goto(f"{url}planner?tokens=1000000")
        assert tab.page.locator("[data-result=total_s]").inner_text() != "–"
        tab.close()


def test_the_planners_two_arithmetics_agree(project: Path, browser: Any) -> None:
    from umsicht.dashboard.planning import Assumptions, estimate

    given = {
        "parameters": 3e8,
        "tokens": 7e9,
        "tokens_per_s": 1.3e5,
        "price_per_hour": 2.5,
        "evaluation_share": 0.07,
        "checkpoints": 33.0,
        "checkpoint_bytes": 1e9,
        "restarts": 2.0,
        "usable_tokens": 2e9,
    }
    with serving(project) as url:
        tab = Tab(browser)
        tab.page.goto(f"{url}planner")
        made = tab.page.evaluate(
            "async (given) => (await import(new URL('static/planning.js', location.href))).estimate(given)",
            given,
        )
        assert made == pytest.approx(vars(estimate(Assumptions(**given))))
        tab.close()


def test_a_replaced_file_is_drawn_anew(tmp_path: Path, browser: Any) -> None:
    folder = make_run(tmp_path, "live", steps=300)
    with serving(tmp_path) as url:
        tab = Tab(browser)
        tab.page.goto(f"{url}run/live/")
        tab.page.locator("#chart-loss .uplot").wait_for(timeout=60_000)
        (folder / "metrics.jsonl").write_bytes(lines(row(step, random.Random(4)) for step in range(40)))
        tab.page.locator("#top .tile dd", has_text="39").first.wait_for(timeout=60_000)
        tab.until("Number(document.querySelector('#chart-loss').dataset.drawn) < 100")
        assert tab.complaints == []
        tab.close()
