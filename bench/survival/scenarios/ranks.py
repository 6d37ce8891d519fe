"""Faults that concern the ranks as a group: their number, one with damaged numbers, two launchers, a loop."""

from __future__ import annotations

import sys

from bench.survival.job import Job, K
from bench.survival.registry import Figures, scenario
from bench.survival.scenarios.kills import differing
from bench.survival.shim import kills
from bench.survival.subject import STEPS, Subjects
from umsicht.record.manifest import verify
from umsicht.train import checkpoints


@scenario(12, "world size 4 to 2 to 3")
def world_changes(subjects: Subjects) -> Figures:
    reference = subjects.unbroken()
    project = subjects.fresh()
    seams = []
    for ranks, until in ((4, 12), (2, 25)):
        with Job(project, ranks=ranks) as job:
            job.wait_step(until)
            code = job.stop()
            seams.append(max(job.losses()))
        yield f"{ranks} ranks saved and left", code, "== 75"
    with Job(project, ranks=3) as job:
        code = job.end()
    yield "3 ranks finish", code, "== 0"
    mine, theirs = job.losses(), reference.losses()
    away = max(abs(mine[step] - loss) / abs(loss) for step, loss in theirs.items())
    yield "largest relative difference of a loss", away, "<= 1e-05"
    yield "steps computed", len(mine), f"== {STEPS}"
    rows = {row["step"]: row for row in job.run.metrics().rows if "train/active_targets" in row}
    other = {row["step"]: row for row in reference.run.metrics().rows if "train/active_targets" in row}
    fields = ("train/active_targets", "train/lr", "tokens", "train/epoch")
    differ = sum(rows[step][name] != row[name] for step, row in other.items() for name in fields)
    yield "steps with another count, rate or place in the data", differ, "== 0"
    yield "samples seen twice or not at all", len(job.findings("RANK/samples")), "== 0"


@scenario(14, "NaN in one rank's gradient")
def one_rank_nan(subjects: Subjects) -> Figures:
    job = Job(subjects.fresh())
    job.command = [sys.executable, "-m", "bench.survival.flip", str(job.folder)]
    with job:
        code = job.end()
    steps = [beat.step for beat in job.beats().values()]
    yield "exit code: stopped by a guard", code, "== 3"
    yield "both ranks stop at the step of the flip", steps == [12, 12], "== 1"
    yield "restarts", len(job.events("fall")), "== 0"
    stops = [row for row in job.run.findings() if row.get("grade") == "stop"]
    yield "finding of grade stop", len(stops), ">= 1"
    yield "files with the batch", len(list((job.folder / "alarms").glob("step-00000012.json"))), "== 1"
    newest = checkpoints.latest(job.run)
    assert newest is not None
    loaded = checkpoints.load(newest)
    yield "last good weights kept", all(bool(w.isfinite().all()) for w in loaded.model.values()), "== 1"
    yield "their step", loaded.step, ">= 10"


@scenario(16, "a second launcher on the same run")
def second_launcher(subjects: Subjects) -> Figures:
    reference = subjects.unbroken()
    project = subjects.fresh()
    with Job(project) as job:
        job.wait_step(12)
        with Job(project) as second:
            code = second.end()
        yield "the second one's exit code", code, "== 2"
        yield "it is told who holds the run", f"process {job.launcher}" in second.said(), "== 1"
        yield "the first one's falls", len(job.events("fall")), "== 0"
        holder = job.launcher
        job.destroy()
    with Job(project) as third:
        code = third.end()
    yield "stale lock taken over and said so", f"process {holder}" in third.said(), "== 1"
    yield "exit code", code, "== 0"
    yield "steps whose loss differs", differing(third, reference), "== 0"


@scenario(17, "crash loop at one step")
def crash_loop(subjects: Subjects) -> Figures:
    project = subjects.fresh()
    environment = kills(project, [("rename", "checkpoints/step-00000010", 1, False)])
    with Job(project, environment=environment) as job:
        code = job.end()
    found = job.findings("SURVIVE/crash-loop")
    yield "starts", len(job.events("start")), "== 3"
    yield "exit code", code, "== 1"
    yield "finding with the step", sum(row["numbers"]["step"] == 10 for row in found), "== 1"
    yield "reason named", bool(found) and found[0]["numbers"]["reason"] == "SIGKILL", "== 1"
    yield "said in the terminal", "SIGKILL" in job.said(), "== 1"
    whole = [one.step for one in checkpoints.listed(job.run) if not verify(one.path)]
    yield "older checkpoint kept", whole == [K], "== 1"
    yield "recorded as stopped", job.run.manifest["state"] == "stopped", "== 1"
