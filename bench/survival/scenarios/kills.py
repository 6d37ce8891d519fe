"""Processes that die: a rank, a rank while it writes, everything at once, on request."""

from __future__ import annotations

import signal
import time

from bench.survival.job import Job, K
from bench.survival.registry import Figures, scenario
from bench.survival.shim import kills
from bench.survival.subject import STEPS, Subjects
from umsicht.record.manifest import verify
from umsicht.train import checkpoints


def differing(job: Job, reference: Job) -> int:
    """Steps whose loss is not the reference's to the last bit, missing ones included."""
    mine, theirs = job.losses(), reference.losses()
    return sum(mine.get(step) != loss for step, loss in theirs.items())


def same_weights(job: Job, reference: Job) -> bool:
    """True where the final weights are the reference's to the last bit."""
    return job.weights() == reference.weights()


@scenario(1, "kill -9 of a rank in mid-step")
def rank_killed(subjects: Subjects) -> Figures:
    reference = subjects.unbroken()
    with Job(subjects.fresh()) as job:
        job.wait_step(13)
        killed = job.hurt(1, signal.SIGKILL)
        fall = job.wait_event("fall")
        running = job.wait_event("running", 2)
        code = job.end()
    yield "noticed after, s", fall["time"] - killed, "<= 5"
    yield "the rank and SIGKILL named", fall["rank"] == 1 and fall["reason"] == "SIGKILL", "== 1"
    yield "running again after, s", running["time"] - killed, "<= 60"
    yield "steps lost", job.sums().steps_lost, f"<= {K}"
    yield "exit code", code, "== 0"
    yield "steps whose loss differs", differing(job, reference), "== 0"
    yield "final weights the same", same_weights(job, reference), "== 1"


@scenario(2, "kill -9 while a checkpoint is written: in a shard, at the manifest, at the rename")
def writer_killed(subjects: Subjects) -> Figures:
    reference = subjects.unbroken()
    project = subjects.fresh()
    faults = [
        ("write", "step-00000010-", 3, True),
        ("rename", "step-00000015-*manifest.json", 1, True),
        ("rename", "checkpoints/step-00000020", 1, True),
    ]
    environment = kills(project, faults)
    with Job(project, environment=environment) as job:
        code = job.end()
    run = job.run
    resumed = [event["resumed"] for event in job.events("running")]
    yield "kills", len(job.events("fall")), "== 3"
    yield "previous checkpoint chosen each time", resumed[:4] == [0, 5, 10, 15], "== 1"
    yield (
        "half-made checkpoints listed",
        sum(bool(verify(one.path)) for one in checkpoints.listed(run)),
        "== 0",
    )
    yield "leftovers", len(list(run.checkpoints.glob(".tmp-*"))), "== 0"
    yield "exit code", code, "== 0"
    yield "steps whose loss differs", differing(job, reference), "== 0"


@scenario(3, "kill -9 of all ranks and the launcher")
def everything_killed(subjects: Subjects) -> Figures:
    reference = subjects.unbroken()
    project = subjects.fresh()
    with Job(project) as job:
        job.wait_step(18)
        job.destroy()
    with Job(project) as again:
        code = again.end()
    running = again.events("running")
    yield "the same command resumes at", running[-1]["resumed"], "== 15"
    yield "exit code", code, "== 0"
    yield "steps lost", again.sums().steps_lost, f"<= {K}"
    yield "steps whose loss differs", differing(again, reference), "== 0"
    yield "final weights the same", same_weights(again, reference), "== 1"


@scenario(4, "SIGTERM to the launcher")
def asked_to_stop(subjects: Subjects) -> Figures:
    reference = subjects.unbroken()
    project = subjects.fresh()
    with Job(project) as job:
        job.wait_step(17)
        asked = time.monotonic()
        code = job.stop(signal.SIGTERM)
        took = time.monotonic() - asked
    stopped = max(job.losses())
    saved = max(one.step for one in checkpoints.listed(job.run))
    yield "ended after, s", took, "<= 30"
    yield "exit code", code, "== 75"
    yield "steps between the last one computed and the checkpoint", stopped - saved, "== 0"
    with Job(project) as again:
        code = again.end()
    yield "the same command finishes", code, "== 0"
    yield "steps lost", again.sums().steps_lost, "== 0"
    yield "steps computed", len(again.losses()), f"== {STEPS}"
    yield "steps whose loss differs", differing(again, reference), "== 0"
