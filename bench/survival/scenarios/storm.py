"""Many faults at random places in one job: what counts is what is left of the time, and that nothing else is different."""

from __future__ import annotations

import random
import signal

from bench.survival.job import Job, K
from bench.survival.registry import Figures, scenario
from bench.survival.scenarios.kills import differing, same_weights
from bench.survival.subject import LONG_STEPS, Subjects

FAULTS, SEED = 10, 11


def plan(seed: int = SEED) -> list[tuple[int, str, int]]:
    """(step, what, rank) of each fault: one in every tenth of the run, at a random step of it."""
    rng = random.Random(seed)
    span = LONG_STEPS // FAULTS
    kinds = ["rank"] * 6 + ["all", "all", "terminate", "terminate"]
    rng.shuffle(kinds)
    return [(n * span + rng.randint(3, span - 2), kind, rng.randrange(2)) for n, kind in enumerate(kinds)]


@scenario(18, "10 seeded random faults in 200 steps")
def storm(subjects: Subjects) -> Figures:
    reference = subjects.unbroken(LONG_STEPS)
    project = subjects.fresh(LONG_STEPS)
    job = Job(project).start()
    struck = 0
    try:
        for step, kind, rank in plan():
            job.wait_step(step)
            struck += 1
            if kind == "rank":
                starts = len(job.events("start"))
                job.hurt(rank, signal.SIGKILL)
                job.wait_event("start", starts + 1)
                continue
            if kind == "terminate":
                job.stop()
            job.destroy()
            job = Job(project).start()
        code = job.end()
    finally:
        job.destroy()
    sums = job.sums()
    yield "faults", struck, f"== {FAULTS}"
    yield "exit code", code, "== 0"
    yield f"useful ÷ executed steps at K = {K}", sums.useful_share or 0.0, ">= 0.8"
    yield "steps whose loss differs", differing(job, reference), "== 0"
    yield "final weights the same", same_weights(job, reference), "== 1"
    yield "goodput", sums.goodput or 0.0, ""
    yield "MTTR, s", sums.mttr_s or 0.0, "<= 60"
