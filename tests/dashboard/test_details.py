"""Small promises of single pages: ancestors drawn once, what faults cost, figures named in words."""

from __future__ import annotations

from pathlib import Path

import orjson
from starlette.testclient import TestClient
from tests.dashboard.records import make_run

from umsicht.dashboard.app import create_app
from umsicht.dashboard.prepare import prepare
from umsicht.dashboard.svg import tree


def node(kind: str, name: str, *parents: object) -> dict[str, object]:
    return {"kind": kind, "name": name, "id": f"id-{kind}-{name}", "missing": False, "parents": parents}


def test_what_two_things_were_made_from_is_drawn_once() -> None:
    corpus = node("corpus", "corpus", node("source", "source:wiki"), node("source", "source:drama"))
    drawn = tree(node("run", "run", corpus, node("tokens", "tokens", corpus)), title="Lineage")
    assert drawn.count(">wiki<") == 1
    assert drawn.count(">drama<") == 1
    assert drawn.count("corpus ↑") == 1


def test_the_checkpoints_page_says_what_faults_cost(tmp_path: Path) -> None:
    run = make_run(tmp_path, "one", steps=60)
    client = TestClient(create_app(tmp_path), base_url="http://127.0.0.1")
    assert "Goodput" not in client.get("/run/one/checkpoints?lang=en").text
    sums = {"starts": 3, "restarts": 2, "steps_executed": 70, "steps_lost": 7, "useful_share": 0.9}
    (run / "survival.json").write_bytes(orjson.dumps(sums | {"goodput": 0.8137, "mttr_s": None}))
    page = client.get("/run/one/checkpoints?lang=en").text
    assert "Goodput" in page
    assert "81.4" in page
    assert "Mean time to repair" not in page


def test_evidence_and_events_are_named_in_the_reader_s_language(tmp_path: Path) -> None:
    run = make_run(tmp_path, "one", steps=400)
    prepare(run)
    client = TestClient(create_app(tmp_path), base_url="http://127.0.0.1")
    assert "Trainings-Loss, letzter" in client.get("/run/one/diagnosis?lang=de").text
    assert "training loss, last" in client.get("/run/one/diagnosis?lang=en").text
