"""Who gets in, what leaves, and that every page answers in both languages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.dashboard.records import SPIKES, lines, make_run, row

from umsicht.dashboard.app import create_app
from umsicht.dashboard.prepare import prepare
from umsicht.words import catalogue

HOST = "http://127.0.0.1:8123"
PAGES = (
    "",
    "compare",
    "ratings",
    "planner",
    "help",
    *(
        f"run/first/{name}"
        for name in ("", "diagnosis", "data", "tokenizer", "samples", "checkpoints", "sheet")
    ),
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    make_run(folder, "first", resume_at=600, overfit=True)
    make_run(folder, "second", steps=400)
    return folder


@pytest.fixture(scope="module")
def prepared(project: Path, cache: Path) -> Path:
    for run in sorted((project / "runs").iterdir()):
        prepare(run)
    return project


@pytest.fixture
def client(prepared: Path) -> Iterator[TestClient]:
    project = prepared
    with TestClient(create_app(project), base_url=HOST) as made:
        yield made


@pytest.mark.parametrize("lang", ["en", "de"])
def test_every_page_answers_without_a_missing_word(client: TestClient, lang: str) -> None:
    for name in PAGES:
        answer = client.get(f"/{name}", params={"lang": lang})
        assert answer.status_code == 200, name
        assert f'<html lang="{lang}"' in answer.text
        visible = re.sub(r"<script.*?</script>|<[^>]*>", " ", answer.text, flags=re.S)
        assert not re.search(r"\b(dashboard|diagnose|record)\.[a-z_]+", visible), name
        assert "<script>" not in answer.text and "style=" not in answer.text and "onclick" not in answer.text


def test_all_urls_on_pages_are_relative(client: TestClient) -> None:
    for name in PAGES:
        for url in re.findall(r'(?:href|src|action)="([^"]*)"', client.get(f"/{name}").text):
            assert not url.startswith(("/", "http", "//")), (name, url)


def test_model_text_is_escaped(client: TestClient) -> None:
    page = client.get("/run/first/samples").text
    assert "<img" not in page and "&lt;img src=x onerror=alert(1)&gt;" in page


def test_security_headers(client: TestClient) -> None:
    headers = client.get("/").headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src 'self'" in policy and "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "same-origin"


def test_the_token_is_asked_for_and_leaves_the_address(project: Path) -> None:
    with TestClient(create_app(project, token="right"), base_url=HOST, follow_redirects=False) as client:
        assert client.get("/").status_code == 403
        assert client.get("/?token=wrong").status_code == 403
        assert client.get("/run/first/metrics.jsonl").status_code == 403
        assert client.get("/static/app.js").status_code == 403
        let_in = client.get("/run/first/?token=right&x=tokens")
        assert let_in.status_code == 303 and let_in.headers["location"] == "./?x=tokens"
        assert (
            "httponly" in let_in.headers["set-cookie"].lower()
            and "samesite" in let_in.headers["set-cookie"].lower()
        )
        assert client.get("/").status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "evil.example:8123", ""])
def test_foreign_hosts_are_refused(client: TestClient, host: str) -> None:
    assert client.get("/", headers={"host": host}).status_code == 421


def test_foreign_origins_cannot_change_anything(client: TestClient) -> None:
    assert client.post("/ratings/x/answer", headers={"origin": "http://evil.example"}).status_code == 403
    assert client.post("/ratings/x/answer", headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert client.post("/ratings/x/answer", headers={"origin": HOST}).status_code != 403


def test_read_only_refuses_every_change(project: Path) -> None:
    with TestClient(create_app(project, read_only=True), base_url=HOST) as client:
        assert client.get("/").status_code == 200
        assert client.post("/ratings/x/answer", headers={"origin": HOST}).status_code == 403


@pytest.mark.parametrize(
    "path",
    [
        "/run/..%2f..%2fsecret/",
        "/run/../../secret/metrics.jsonl",
        "/run/%2e%2e/metrics.jsonl",
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/vendor/..%2fapp.py",
        "/run/first%00/",
        "/run/first/nothing",
    ],
)  # fmt: skip
def test_no_path_leads_out(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404 and "from __future__" not in answer.text


def test_a_link_that_leads_out_of_the_folder_is_not_a_run(project: Path, tmp_path: Path) -> None:
    outside = make_run(tmp_path / "elsewhere", "private", steps=5)
    link = project / "runs" / "linked"
    link.symlink_to(outside, target_is_directory=True)
    try:
        with TestClient(create_app(project), base_url=HOST) as client:
            assert client.get("/run/linked/").status_code == 404
            assert client.get("/run/private/").status_code == 404
    finally:
        link.unlink()


def test_series_keeps_every_spike_and_answers_304_when_nothing_is_new(client: TestClient) -> None:
    query = {"key": "train/loss", "px": "100"}
    answer = client.get("/run/first/series", params=query)
    made = answer.json()
    pack = made["series"]["train/loss"]
    high = [max(a, b) for a, b in zip(pack["a"], pack["b"], strict=True)]
    for step in SPIKES:
        assert high[pack["i"].index(step // made["width"])] > 5.5
    assert made["restarts"] == [600.0] and "train/loss" in made["old"]
    again = client.get("/run/first/series", params=query, headers={"if-none-match": answer.headers["etag"]})
    assert again.status_code == 304 and not again.content


def test_zooming_gives_finer_buckets(client: TestClient) -> None:
    made = client.get(
        "/run/first/series", params={"key": "train/loss", "px": "100", "x0": "100", "x1": "180"}
    ).json()
    assert made["width"] == 1.0 and 137 in made["series"]["train/loss"]["i"]


def test_a_partial_answer_continues_an_earlier_one(client: TestClient) -> None:
    whole = client.get("/run/first/series", params={"key": "train/loss", "px": "100"}).json()
    index = whole["series"]["train/loss"]["i"]
    part = client.get(
        "/run/first/series",
        params={"key": "train/loss", "px": "100", "width": whole["width"], "from": index[-3]},
    ).json()
    assert part["partial"] and part["series"]["train/loss"]["i"] == index[-3:]
    other = client.get(
        "/run/first/series", params={"key": "train/loss", "px": "100", "width": 1, "from": index[-3]}
    ).json()
    assert not other["partial"]


@pytest.mark.parametrize(
    "query",
    [
        "x=sideways",
        "px=nan",
        "px=-5",
        "px=1e99",
        "x0=abc&x1=1e400",
        "key=" + "k" * 500,
        "from=-1&width=0",
        "key=val/all/loss&x=time",
    ],
)
def test_odd_queries_get_an_answer(client: TestClient, query: str) -> None:
    answer = client.get(f"/run/first/series?{query}&key=train/loss")
    assert answer.status_code == 200 and "series" in answer.json()


def test_non_finite_values_are_marked_and_named(project: Path) -> None:
    make_run(project, "broken", steps=300, nan_at=250)
    with TestClient(create_app(project), base_url=HOST) as client:
        made = client.get("/run/broken/series?key=train/loss&key=train/grad_norm").json()
        assert made["odd"] == {"train/loss": [[250.0, "NaN"]], "train/grad_norm": [[250.0, "+∞"]]}
        page = client.get("/run/broken/?lang=en").text
        assert 'role="alert"' in page and "since step 250" in page


def test_appended_rows_appear(project: Path) -> None:
    folder = make_run(project, "growing", steps=50)
    with TestClient(create_app(project), base_url=HOST) as client:
        assert client.get("/run/growing/series?key=train/loss").json()["n"] == 50
        import random

        with (folder / "metrics.jsonl").open("ab") as file:
            file.write(lines(row(step, random.Random(1)) for step in range(50, 60)))
        assert client.get("/run/growing/series?key=train/loss").json()["n"] == 60


def test_the_raw_file_is_complete(client: TestClient, project: Path) -> None:
    assert (
        client.get("/run/first/metrics.jsonl").content
        == (project / "runs" / "first" / "metrics.jsonl").read_bytes()
    )


def test_the_words_of_the_scripts_cannot_close_their_element(client: TestClient) -> None:
    for block in re.findall(
        r'<script type="application/json"[^>]*>(.*?)</script>', client.get("/run/first/").text, flags=re.S
    ):
        assert "<" not in block
        json.loads(block)


def test_an_empty_folder_explains_the_first_command(tmp_path: Path) -> None:
    with TestClient(create_app(tmp_path), base_url=HOST) as client:
        assert "umsicht init my-model" in client.get("/").text


def test_language_by_cookie_header_and_query(client: TestClient) -> None:
    assert '<html lang="de"' in client.get("/", headers={"accept-language": "de-AT,de;q=0.9"}).text
    assert '<html lang="de"' in client.get("/?lang=de").text
    assert '<html lang="de"' in client.get("/", headers={"accept-language": "en"}).text
    assert '<html lang="en"' in client.get("/?lang=xx&lang=en").text or catalogue("en", "dashboard")


def test_runs_of_several_projects_with_equal_names_keep_apart(tmp_path: Path) -> None:
    for name in ("a", "b"):
        make_run(tmp_path / name, "same", steps=20)
    with TestClient(create_app(tmp_path), base_url=HOST) as client:
        found = set(re.findall(r'data-run="([^"]+)"', client.get("/").text))
        assert len(found) == 2 and all(name.startswith("same-") for name in found)


def test_filter_finds_by_name_state_and_verdict(client: TestClient) -> None:
    assert 'data-run="second"' in client.get("/?q=second").text
    assert 'data-run="first"' not in client.get("/?q=second").text
    assert 'data-run="first"' in client.get("/?q=finished+first&lang=en").text
