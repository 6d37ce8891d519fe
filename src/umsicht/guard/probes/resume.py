"""T14: straight through equals stop and resume equals stop and resume twice, across the edge of an epoch, in new objects or a new process."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

from umsicht.findings import Finding
from umsicht.guard.probes.rehearse import Recorder, Stage, Trace, fit, stage_of
from umsicht.guard.subject import Subject, numbers

STAGE = "resume"
STEPS = 9
STOPS = (3, 6)
ORDER = ("batch", "rate", "loss", "gradient", "weights")


def rehearsal(subject: Subject) -> Iterator[Finding]:
    """Nine steps straight; the same with stops after the 3rd and the 6th; every figure of every step equal to the bit."""
    stage = stage_of(subject)
    make_source = subject.extra.get("small_source") or stage.make_source
    settings = stage.short(STEPS)
    straight = stage.trace("straight", source=make_source(), settings=settings)
    if len(straight.losses) < STEPS:
        yield Finding(
            "RESUME-STATE/rehearsal-failed",
            "stop",
            STAGE,
            location="resume",
            numbers=numbers(steps=len(straight.losses), planned=STEPS),
        )
        return
    elsewhere = subject.extra.get("elsewhere")
    parts = segments(stage, make_source, settings, elsewhere)
    yield from compare(straight, parts, "new" if elsewhere is not None else "same")


def segments(stage: Stage, make_source: Any, settings: Any, elsewhere: Any = None) -> list[Trace]:
    """The stopped run in three parts, everything built anew for each; the middle one in a process of its own where one can be had."""
    found = []
    for number, stop in enumerate((*STOPS, None)):
        if number == 1 and elsewhere is not None:
            found.append(elsewhere(stage.folder, STEPS, stop))
        else:
            found.append(one_segment(stage, make_source(), settings, stop))
    return found


def one_segment(stage: Stage, source: Any, settings: Any, stop: int | None) -> Trace:
    """Train from where the rehearsal's run stands to `stop`, or to its end; the global random states disturbed before."""
    torch.manual_seed(90210)
    recorder = Recorder(stop_at=None if stop is None else stop + 1)
    fit(stage.trainer("resumed", hooks=[recorder], source=source, settings=settings))
    return recorder.trace


def compare(straight: Trace, parts: list[Trace], process: str) -> Iterator[Finding]:
    """Find the first figure that differs, in the order in which one follows from the other."""
    by_step = {step: straight.row(index) for index, step in enumerate(straight.steps)}
    seen: list[int] = []
    for number, part in enumerate(parts):
        # The last step of a stopped part was seen but not made: the stop came before the optimizer moved.
        made = [(index, step) for index, step in enumerate(part.steps) if index < len(part.weights)]
        if number and made:
            expected = seen[-1] + 1 if seen else 1
            if made[0][1] != expected:
                yield _finding("step", number, made[0][1], process, made[0][1], expected)
                return
        for index, step in made:
            seen.append(step)
            want, got = by_step.get(step), part.row(index)
            if want is None:
                yield _finding("step", number, step, process, step, STEPS)
                return
            for kind in ORDER:
                if got[kind] != want[kind] and not (_nan(got[kind]) and _nan(want[kind])):
                    yield _finding(kind, number, step, process, got[kind], want[kind])
                    return
    if seen != list(range(1, STEPS + 1)):
        yield _finding("step", len(parts) - 1, seen[-1] if seen else 0, process, len(seen), STEPS)


def _nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _finding(kind: str, part: int, step: int, process: str, got: Any, want: Any) -> Finding:
    """The first thing that differs names the fault: data, rate, weights or optimizer, random state."""
    name = {
        "step": "RESUME-STATE/step",
        "batch": "RESUME-STATE/data",
        "rate": "RESUME-STATE/rate",
        "loss": "RESUME-STATE/weights",
        "gradient": "RESUME-STATE/random",
        "weights": "RESUME-STATE/optimizer",
    }[kind]
    location = "resume" if part else "resume: before the first stop"
    return Finding(
        name,
        "stop",
        STAGE,
        location=f"{location}: step {step}",
        numbers=numbers(step=step, got=got, want=want, resumes=part, process=process, kind=kind),
    )
