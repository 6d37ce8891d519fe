"""One change or not, seeds grouped, bands only where there is a spread, figures only at a point that all have reached."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient
from tests.dashboard.records import make_run

from umsicht.dashboard import comparing
from umsicht.dashboard.app import create_app
from umsicht.dashboard.planning import Assumptions, estimate
from umsicht.record import Run

HOST = "http://127.0.0.1:8123"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    for number in range(9):
        run = Run.open(make_run(folder, f"run-{number}", steps=200 + 20 * number))
        recipe = run.manifest["recipe"]
        recipe["train"] |= {"seed": number, "lr": 3e-3 if number < 3 else 7e-3 * number}
        run.update_manifest(recipe=recipe, seed=number)
    return folder


@pytest.fixture
def client(project: Path) -> Iterator[TestClient]:
    with TestClient(create_app(project), base_url=HOST) as made:
        yield made


def test_differences_count_changes_but_not_seeds() -> None:
    found, equal = comparing.differences(
        [
            {"a.b": "1", "train.seed": "0", "c": "x"},
            {"a.b": "2", "train.seed": "1", "c": "x"},
            {"a.b": "1", "train.seed": "2", "c": "x", "d": "new"},
        ]
    )
    assert [(item.key, item.is_change) for item in found] == [
        ("a.b", True),
        ("d", True),
        ("train.seed", False),
    ]
    assert equal == 1 and found[1].values == ("–", "–", "new")


def test_seed_groups_ignore_names_and_seeds_only() -> None:
    groups = comparing.seed_groups(
        {
            "a": {"lr": "1", "seed": "0"},
            "b": {"lr": "2", "seed": "0"},
            "c": {"lr": "1", "seed": "5", "name": "c"},
        }
    )
    assert groups == [["a", "c"], ["b"]]


def test_a_band_is_the_mean_and_sample_deviation_and_needs_two_runs() -> None:
    assert comparing.band([{0: 1.0}], spread=True) is None
    made = comparing.band([{0: 1.0, 1: 5.0}, {0: 3.0}, {0: 5.0, 1: 9.0}], spread=True)
    assert made is not None and made["i"] == [0.0] and made["mean"] == [3.0]
    assert made["low"] == [3.0 - np.std([1, 3, 5], ddof=1)] and made["high"] == [
        3.0 + np.std([1, 3, 5], ddof=1)
    ]
    envelope = comparing.band([{0: 1.0}, {0: 4.0}], spread=False)
    assert envelope is not None and (envelope["low"], envelope["high"]) == ([1.0], [4.0])


@pytest.mark.parametrize(
    ("runs", "words"),
    [("run-0 run-1", "No change"), ("run-0 run-4", "One change"), ("run-0", "Choose at least two runs")],
)
def test_the_verdict_on_the_comparison_stands_first(client: TestClient, runs: str, words: str) -> None:
    query = "&".join(f"run={name}" for name in runs.split())
    assert words in client.get(f"/compare?lang=en&{query}").text


def test_more_than_one_change_is_no_controlled_comparison(project: Path) -> None:
    run = Run.open(project / "runs" / "run-8")
    run.update_manifest(recipe={**run.manifest["recipe"], "model": {"d_model": 999, "n_layers": 4}})
    with TestClient(create_app(project), base_url=HOST) as client:
        page = client.get("/compare?lang=en&run=run-0&run=run-8").text
    assert "2 changes: not a controlled comparison" in page


def test_six_curves_bands_and_one_envelope(client: TestClient) -> None:
    query = "&".join(f"run=run-{number}" for number in range(9))
    answer = client.get(f"/api/compare?key=val/all/loss&px=100&{query}")
    made = answer.json()
    assert len(made["series"]) == 6 and made["n_rest"] == 3
    assert [band["runs"] for band in made["bands"]] == [["run-0", "run-1", "run-2"]] and made["bands"][0][
        "n"
    ] == 3
    assert made["rest"]["i"] and all(
        low <= high for low, high in zip(made["rest"]["low"], made["rest"]["high"], strict=True)
    )
    again = client.get(
        f"/api/compare?key=val/all/loss&px=100&{query}", headers={"if-none-match": answer.headers["etag"]}
    )
    assert again.status_code == 304


def test_figures_are_taken_where_every_run_has_been(client: TestClient) -> None:
    page = client.get("/compare?lang=en&run=run-0&run=run-5&key=train/loss").text
    assert "step 199" in page


def test_unknown_runs_and_metrics_are_harmless(client: TestClient) -> None:
    assert client.get("/compare?run=nothing&key=../../etc").status_code == 200
    assert client.get("/api/compare?run=nothing&key=x").json()["series"] == {}


def test_the_planner_adds_up() -> None:
    made = estimate(
        Assumptions(
            parameters=1e8,
            tokens=2e9,
            tokens_per_s=1e4,
            price_per_hour=3,
            evaluation_share=0.1,
            checkpoints=10,
            checkpoint_bytes=1e9,
            restarts=1,
            usable_tokens=5e8,
        )
    )
    assert made.training_s == 2e5 and made.evaluation_s == 2e4 and made.restart_s == 1e4
    assert made.total_s == 2.3e5 and made.cost == pytest.approx(2.3e5 / 3600 * 3)
    assert (
        made.flops == 1.2e18
        and made.disk_bytes == 1e10
        and made.tokens_per_parameter == 20
        and made.epochs == 4
    )


@pytest.mark.parametrize(
    "query",
    [
        "tokens=abc",
        "tokens=-1",
        "tokens=1e999",
        "tokens=nan",
        "tokens_per_s=0",
        "parameters=0&checkpoints=0",
        "",
    ],
)
def test_nonsense_in_the_planner_gets_an_answer(client: TestClient, query: str) -> None:
    assert client.get(f"/planner?{query}").status_code == 200


def test_measured_figures_come_before_defaults() -> None:
    made = Assumptions.read({"tokens": "5e6"}, {"parameters": 123_000, "tokens": 9.0, "tokens_per_s": None})
    assert (
        made.parameters == 123_000 and made.tokens == 5e6 and made.tokens_per_s == Assumptions().tokens_per_s
    )


def test_random_columns_of_runs_share_one_grid(tmp_path: Path) -> None:
    from umsicht.dashboard.tail import Tail

    loaded = [
        Tail(make_run(tmp_path, f"r{n}", steps=random.Random(n).randint(50, 400)) / "metrics.jsonl").columns()
        for n in range(3)
    ]
    width = comparing.common_width(loaded, "tokens", 64)
    for columns in loaded:
        grid = comparing.on_grid(columns, "train/loss", "tokens", width)
        assert set(grid) == {int(x // width) for x in columns.tokens}
