"""The twenty faults on real training jobs: every figure of every row is met. The same on ranks without torch runs in the short tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from bench.common import Figure
from bench.survival.registry import Scenario, SkippedError, all_scenarios
from bench.survival.subject import Subjects

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="faults of processes, disks and networks need Linux"),
]


@pytest.fixture(scope="module")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> Subjects:
    return Subjects(Path(tmp_path_factory.mktemp("survival")))


@pytest.mark.parametrize(
    "one", all_scenarios(), ids=lambda one: f"{one.number}-{one.title.replace(' ', '-')}"
)
def test_a_row_holds(one: Scenario, subjects: Subjects) -> None:
    try:
        figures = [Figure(name, float(value), target) for name, value, target in one.act(subjects)]
    except SkippedError as reason:
        pytest.skip(str(reason))
    missed = [
        f"{figure.name}: {figure.shown()} {figure.target}" for figure in figures if figure.verdict == "MISSED"
    ]
    assert figures and not missed


def test_all_twenty_faults_are_there() -> None:
    assert [one.number for one in all_scenarios()] == list(range(1, 21))
