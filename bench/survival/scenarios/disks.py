"""Disks that are full, read-only, or give back other bytes than they were given."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.survival.job import WAIT_S, Job, K, surroundings
from bench.survival.registry import Figures, SkippedError, scenario
from bench.survival.scenarios.kills import differing
from bench.survival.subject import STEPS, Subjects
from umsicht.record import Run
from umsicht.record.manifest import verify
from umsicht.train import checkpoints


@contextmanager
def small_disk(folder: Path, size_bytes: int) -> Iterator[Path]:
    """A file system of that size on `folder`, which is made. Raises SkippedError where mounting is not allowed."""
    folder.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "none", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise SkippedError(f"cannot mount: {error}") from None
    if done.returncode:
        raise SkippedError(f"mounting a small file system is not allowed here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@scenario(7, "disk full at save")
def disk_full(subjects: Subjects) -> Figures:
    reference = subjects.unbroken()
    size = sum(p.stat().st_size for p in (reference.run.checkpoints / f"step-{STEPS:08d}").iterdir())
    for stops in (False, True):
        project = subjects.fresh()
        word = "stops" if stops else "goes on"
        with small_disk(Job(project).folder / "checkpoints", int(2.6 * size)):
            options = ["--set", f"train.checkpoint.stop_when_full={str(stops).lower()}"]
            with Job(project, options=options) as job:
                code = job.end()
            found = job.findings("CHECKPOINT/not-written")
            listed = checkpoints.listed(job.run)
            whole = [one.step for one in listed if not verify(one.path)]
        yield f"{word}: exit code", code, f"== {3 if stops else 0}"
        yield f"{word}: finding in the record", len(found), ">= 1"
        numbers = found[0]["numbers"] if found else {}
        yield f"{word}: path named", "checkpoints" in str(found[0]["location"]) if found else 0, "== 1"
        yield f"{word}: bytes needed named", numbers.get("needed_bytes", 0) / size, ">= 0.9"
        yield f"{word}: older checkpoints kept", whole[:2] == [K, 2 * K] and len(whole) == len(listed), "== 1"
        last = max(job.losses())
        yield f"{word}: last step", last, f"<= {3 * K + 1}" if stops else f"== {STEPS}"
        if not stops:
            yield f"{word}: steps whose loss differs", differing(job, reference), "== 0"


@scenario(8, "output folder read-only; temporary folder full")
def refused_folders(subjects: Subjects) -> Figures:
    project = subjects.fresh()
    with small_disk(project / "mounted", 50_000_000) as disk:
        shutil.copytree(project / "survive", disk / "survive")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        code, said = refused(project, disk / "survive", {})
    yield "read-only: exit code", code, "== 2"
    yield "read-only: path named", str(disk / "survive") in said, "== 1"
    yield "read-only: no traceback", "Traceback" not in said, "== 1"
    with small_disk(project / "temporary", 300_000) as disk:
        code, said = refused(project, project / "survive", {"TMPDIR": str(disk)})
    yield "full temporary folder: exit code", code, "== 2"
    yield "full temporary folder: path named", str(disk) in said, "== 1"
    yield "steps begun", sum(1 for _ in project.glob("survive/runs/*/metrics.jsonl")), "== 0"


def refused(project: Path, out: Path, environment: dict[str, str]) -> tuple[int, str]:
    """The whole command; its exit code and words."""
    command = [
        sys.executable,
        "-m",
        "umsicht",
        "train",
        "recipe.yaml",
        "--out",
        str(out),
        "--nproc-per-node",
        "2",
    ]
    done = subprocess.run(
        command,
        cwd=project,
        env={**surroundings(), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT_S,
    )
    return done.returncode, done.stdout + done.stderr


def newest(run: Run) -> list[Path]:
    """Checkpoints, the newest first."""
    return [one.path for one in reversed(checkpoints.listed(run))]


def flip(path: Path) -> None:
    """One bit in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def damaged(subjects: Subjects, damages: list[tuple[str, Callable[[Path], None]]]) -> Figures:
    """A stopped run whose newest checkpoints are damaged, one way each; the next older one is whole."""
    reference = subjects.unbroken()
    project = subjects.fresh()
    run = subjects.stopped_at(22, project)
    whole = newest(run)
    for path, (name, damage) in zip(whole, damages, strict=False):
        damage(path / name)
    good = int(whole[len(damages)].name.partition("-")[2])
    with Job(project) as job:
        code = job.end()
    found = job.findings("CHECKPOINT/damaged")
    for name, _ in damages:
        yield f"{name}: refused and named", sum(row["numbers"]["file"] == name for row in found), ">= 1"
    yield "goes on from the previous whole one", job.events("running")[-1]["resumed"], f"== {good}"
    yield "says so", "step-" in job.said() and str(good) in job.said(), "== 1"
    yield "exit code", code, "== 0"
    yield "steps whose loss differs", differing(job, reference), "== 0"


@scenario(9, "one bit flipped in model shard, optimizer shard, data state, manifest")
def bit_flipped(subjects: Subjects) -> Figures:
    names = ("model.safetensors", "optimizer.safetensors", "state.json", "manifest.json")
    yield from damaged(subjects, [(name, flip) for name in names])


@scenario(10, "a shard or the optimizer file is missing")
def file_missing(subjects: Subjects) -> Figures:
    yield from damaged(
        subjects, [(name, Path.unlink) for name in ("model.safetensors", "optimizer.safetensors")]
    )


@scenario(11, "torn last line and duplicated steps in metrics.jsonl")
def torn_lines(subjects: Subjects) -> Figures:
    reference = subjects.unbroken()
    project = subjects.fresh()
    with Job(project) as job:
        job.wait_step(18)
        job.destroy()
    path = job.run.metrics_path
    os.truncate(path, path.stat().st_size - 20)
    before = job.run.metrics()
    yield "torn line counted, not raised", before.torn, "== 1"
    with Job(project) as again:
        code = again.end()
    after = again.run.metrics()
    steps = [row["step"] for row in after.rows if "train/loss" in row]
    yield "exit code", code, "== 0"
    yield "lines that are no rows", after.bad, "== 1"
    yield "rows replaced by the restart", after.replaced, ">= 1"
    yield "each step once", steps == list(range(1, STEPS + 1)), "== 1"
    last = {row["segment"] for row in after.rows if row["step"] > 15}
    yield "the last run of a step wins", last == {1}, "== 1"
    yield "steps whose loss differs", differing(again, reference), "== 0"
