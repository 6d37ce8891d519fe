"""Faults in somebody else's loop that no row of the catalogue describes are named; the same loop without them is not."""

from __future__ import annotations

import pytest
import torch
from bench.faults.cases import CASES
from bench.faults.cases.loops import adapted, looped
from bench.faults.judge import judge
from bench.faults.work import plain

from umsicht.guard import check

PLANTED = ("X1-faint", "X2-loud", "X3-loud", "X4-faint", "X5-faint", "X6-faint", "X8-faint", "X12-faint")
BY_NAME = {case.name: case for case in CASES}


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.mark.parametrize("name", PLANTED)
def test_planted_fault_is_named(name: str) -> None:
    case = BY_NAME[name]
    assert case.foreign is not None
    report = check(**case.foreign())
    assert judge(case, {"named": plain(report)}) == "named", list(report)


def test_healthy_loop_is_quiet() -> None:
    assert plain(check(**looped(), all=True)) == []


def test_adapters_on_a_frozen_base_are_quiet() -> None:
    assert plain(check(**adapted(), all=True)) == []


def test_a_schedule_that_moves_with_the_steps_is_quiet() -> None:
    arguments = looped()
    optimizer = arguments["optimizer"]
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda number: 1 / (1 + 0.1 * number))
    step = arguments["train_step"]

    def planned(model: object, optimizer: object, batches: object) -> None:
        step(model, optimizer, batches)
        schedule.step()

    arguments.update(train_step=planned, schedule=schedule)
    assert plain(check(**arguments, all=True)) == []
    assert schedule.last_epoch == 0
