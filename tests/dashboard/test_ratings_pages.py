"""Blind rating in the browser: no name leaves the server, answers are stored, results wait for the end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from umsicht.dashboard.app import create_app
from umsicht.ratings import Design, Matched, Output, create, default

HOST = "http://127.0.0.1:8123"
SYSTEMS = ("secret-sft-step-00001000", "secret-base-step-00000500")
HEADERS = {"origin": HOST}


def output(system: str, number: int) -> Output:
    return Output(
        system=system,
        prompt_id=f"p{number}",
        prompt=f"Prompt {number} <b>x</b>",
        text=f"Text {number} of {'better' if system == SYSTEMS[0] else 'worse'} kind, long enough to be spoilt as a control.",
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    pairs = [Matched(output(SYSTEMS[0], n), output(SYSTEMS[1], n)) for n in range(6)]
    create(
        tmp_path / "p" / "ratings" / "secret-sft-against-base",
        pairs,
        Design(raters=("ada", "bo"), seed=3),
        default("en"),
    )
    (tmp_path / "p" / "runs").mkdir()
    return tmp_path / "p"


@pytest.fixture
def client(project: Path) -> Iterator[TestClient]:
    with TestClient(create_app(project), base_url=HOST) as made:
        yield made


def rater_pages(client: TestClient) -> list[str]:
    return re.findall(r'href="(ratings/[^"]+/)"', client.get("/ratings").text)


def answer_all(client: TestClient, place: str) -> int:
    given = 0
    while True:
        page = client.get(f"/{place}").text
        item = re.search(r'name="item" value="([0-9a-f]+)"', page)
        if item is None:
            return given
        left = re.search(r"<h2>A</h2><p class=\"said\">(.*?)</p>", page, flags=re.S)
        choice = "left" if left and "better" in left.group(1) else "right"
        answer = client.post(
            f"/{place}answer",
            data={"item": item.group(1), "answer": choice, "seconds": "3.5"},
            headers=HEADERS,
        )
        assert answer.status_code == 200
        given += 1


def test_no_page_or_address_names_a_system_before_the_end(client: TestClient) -> None:
    places = rater_pages(client)
    assert len(places) == 2
    for place in ("ratings", *places):
        answer = client.get(f"/{place}")
        for text in (answer.text, str(answer.headers), str(answer.url)):
            assert "secret" not in text and "step-0000" not in text


def test_a_whole_round_in_the_browser(client: TestClient, project: Path) -> None:
    first, second = rater_pages(client)
    assert answer_all(client, first) >= 6
    assert "secret" not in client.get("/ratings").text and "/close" not in client.get("/ratings").text
    round_id = first.split("/")[1]
    assert client.post(f"/ratings/{round_id}/close", headers=HEADERS).status_code == 400
    answer_all(client, second)
    page = client.post(f"/ratings/{round_id}/close", headers=HEADERS)
    assert page.status_code == 200 and "result.json" in {
        path.name for path in (project / "ratings").rglob("*")
    }
    assert "95 % interval" in page.text or "95-%-Intervall" in page.text
    late = client.post(f"/{first}answer", data={"item": "0", "answer": "left"}, headers=HEADERS)
    assert late.status_code == 400


def test_the_last_answer_counts_and_can_be_changed(client: TestClient, project: Path) -> None:
    place = rater_pages(client)[0]
    item = re.search(r'name="item" value="([0-9a-f]+)"', client.get(f"/{place}").text)
    assert item is not None
    for choice in ("left", "tie"):
        client.post(
            f"/{place}answer",
            data={"item": item.group(1), "answer": choice, "seconds": "99999"},
            headers=HEADERS,
        )
    rows = (
        (project / "ratings" / "secret-sft-against-base" / "answers" / f"{place.split('/')[2]}.jsonl")
        .read_text()
        .splitlines()
    )
    assert len(rows) == 2 and '"tie"' in rows[-1] and "seconds" not in rows[-1]
    again = client.get(f"/{place}?item={item.group(1)}").text
    assert re.search(r'value="tie"[^>]*aria-pressed="true"', again)


@pytest.mark.parametrize(
    "data", [{"item": "nothing", "answer": "left"}, {"answer": "left"}, {"item": "", "answer": ""}]
)
def test_a_bad_answer_is_refused_in_words(client: TestClient, data: dict[str, str]) -> None:
    answer = client.post(f"/{rater_pages(client)[0]}answer", data=data, headers=HEADERS)
    assert answer.status_code == 400 and "Traceback" not in answer.text


def test_a_huge_form_and_unknown_rounds_are_refused(client: TestClient) -> None:
    place = rater_pages(client)[0]
    assert (
        client.post(f"/{place}answer", content=b"note=" + b"x" * 100_000, headers=HEADERS).status_code == 413
    )
    assert client.get("/ratings/0000000000/ada/").status_code == 404
    assert client.get(f"/{place.replace(place.split('/')[2], 'nobody')}").status_code == 404


def test_read_only_shows_no_way_to_rate(project: Path) -> None:
    with TestClient(create_app(project, read_only=True), base_url=HOST) as client:
        assert rater_pages(client) == []
