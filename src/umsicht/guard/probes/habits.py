"""T11 on anybody's step: in which mode it trains, and how far it moves its schedule."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from umsicht.findings import Finding
from umsicht.guard.adapt_batch import Example
from umsicht.guard.gradients import seen_by_steps
from umsicht.guard.subject import Subject, numbers

STAGE = "one-step"
STEPS = 3
CALLED = 64


@contextmanager
def schedule_kept(schedule: Any) -> Iterator[None]:
    """A torch scheduler may be moved inside the block and stands where it stood afterwards."""
    kept = copy.deepcopy(schedule.state_dict()) if hasattr(schedule, "state_dict") else None
    try:
        yield
    finally:
        if kept is not None:
            schedule.load_state_dict(kept)


def loop_habits(
    subject: Subject, optimizer: torch.optim.Optimizer, pieces: list[Example]
) -> Iterator[Finding]:
    """Some whole steps of the user's own: was the model in training mode, did the schedule move by one, is the rate the schedule's?"""
    assert subject.train_step is not None
    view, module = subject.need_model(), subject.need_module()
    schedule = subject.schedule
    begun = getattr(schedule, "last_epoch", None)

    def look() -> tuple[bool, list[float]]:
        return module.training, [float(group["lr"]) for group in optimizer.param_groups]

    elsewhere = getattr(schedule, "optimizer", None)
    if isinstance(elsewhere, torch.optim.Optimizer) and elsewhere is not optimizer:
        yield Finding(
            "OPT-WIRING/schedule-elsewhere",
            "stop",
            STAGE,
            location="schedule",
            numbers=numbers(optimizer=type(elsewhere).__name__, groups=len(elsewhere.param_groups)),
        )
        return

    before = subject.steps_taken
    with subject.borrowed(optimizer), view.mode(training=True), seen_by_steps(optimizer, look) as seen:
        for _ in range(STEPS):
            subject.take_step(optimizer, [piece.raw for piece in pieces])
    modes, groups = [mode for mode, _ in seen], [rates for _, rates in seen]
    rates = [max(one) for one in groups]
    behind = left_behind(groups)
    if behind is not None:
        yield behind
        return
    moved = getattr(schedule, "last_epoch", 0) - begun if begun is not None else 0
    if modes and not any(modes) and view.drops():
        yield Finding(
            "OPT-WIRING/trains-in-eval-mode",
            "stop",
            STAGE,
            location="training step",
            numbers=numbers(steps=len(modes)),
        )
    if moved > len(rates) > 0:
        yield _schedule(len(rates), moved, rates)
    elif begun is None and callable(schedule) and rates:
        yield from _closed_form(schedule, rates, before)


def left_behind(history: list[list[float]]) -> Finding | None:
    """Groups whose rate stands still while another group's moves, from the rates of some steps in a row."""
    if len(history) < 2 or len({len(rates) for rates in history}) > 1:
        return None
    moves = [len(set(rates)) > 1 for rates in zip(*history, strict=True)]
    still = [index for index, moved in enumerate(moves) if not moved and history[0][index] > 0 and any(moves)]
    if not still:
        return None
    leader = moves.index(True)
    return Finding(
        "OPT-WIRING/group-left-behind",
        "warn",
        STAGE,
        location=f"schedule: group {still[0]}",
        numbers=numbers(
            still=len(still),
            groups=len(moves),
            rate=history[-1][still[0]],
            first=history[0][leader],
            last=history[-1][leader],
        ),
    )


def _schedule(steps: int, moved: int, rates: list[float]) -> Finding:
    return Finding(
        "OPT-WIRING/schedule-steps",
        "stop",
        STAGE,
        location="schedule",
        numbers=numbers(steps=steps, moved=moved, first=rates[0], last=rates[-1]),
    )


def _closed_form(schedule: Callable[[int], Any], rates: list[float], before: int) -> Iterator[Finding]:
    """The rates of a loop that sets them itself against step → rate; a rate that never moves is set elsewhere.

    Counted from wherever the loop's own counter may stand after the `before` steps that probes have asked of it: it went on, was put back
    with the weights, or had counted before. Exactly one too many is a loop that reads the next step's rate, unless step 0 has none.
    """
    if len(set(rates)) == 1 and len({float(schedule(step)) for step in range(len(rates) + 1)}) > 1:
        return

    def fits(start: int) -> bool:
        wanted = [float(schedule(start + index)) for index in range(len(rates))]
        pairs = zip(rates, wanted, strict=True)
        return all(abs(got - want) <= 1e-4 * max(abs(want), 1e-12) for got, want in pairs)

    starts = [start for start in range(max(CALLED, before + 2)) if fits(start)]
    if starts == [before + 1] and float(schedule(0)) > 0:
        yield Finding(
            "OPT-WIRING/schedule",
            "warn",
            STAGE,
            location="schedule: one step ahead",
            numbers=numbers(step=before, rate=rates[0], expected=float(schedule(before))),
        )
        return
    if starts:
        return
    wanted = [float(schedule(index)) for index in range(len(rates))]
    wrong = next(i for i, (got, want) in enumerate(zip(rates, wanted, strict=True)) if got != want)
    yield Finding(
        "OPT-WIRING/schedule",
        "stop",
        STAGE,
        location=f"schedule: step {wrong}",
        numbers=numbers(step=wrong, rate=rates[wrong], expected=wanted[wrong]),
    )
