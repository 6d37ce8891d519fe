"""A dozen faults and three healthy pipelines of the fault bench, each in a process of its own."""

from __future__ import annotations

import os

import pytest
from bench.faults import healthy
from bench.faults.__main__ import SHORT, forked, judge, run_case
from bench.faults.cases import CASES

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
BY_NAME = {case.name: case for case in CASES}


@pytest.mark.parametrize("name", SHORT)
def test_planted_fault_is_named(name: str) -> None:
    answer = forked(run_case, BY_NAME[name])
    assert judge(BY_NAME[name], answer) == "named", answer


@pytest.mark.parametrize("name", list(healthy.HEALTHY)[:3])
def test_healthy_pipeline_is_quiet(name: str) -> None:
    answer = forked(healthy.run_healthy, name)
    assert answer["named"] == [] and answer.get("alarms") == [] and answer["reason"] == "finished", answer
