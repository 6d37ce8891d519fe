"""The job that is hurt: a small model on the starter text, its data made once, then copied for every scenario."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from bench.survival.job import SOURCE, Job, K, copy_of
from umsicht.record import Run

RECIPE = """name: survive
preset: tiny
train:
  budget: {{steps: {steps}}}
  global_batch_tokens: 768
  threads: 1
  micro_batch: 3
  precision: float32
  compile: "off"
  device: cpu
  checkpoint: {{every_steps: {k}, every_minutes: null, keep_last: 6, asynchronous: false}}
"""
STEPS, LONG_STEPS = 40, 200


class Subjects:
    """Prepared projects and unbroken runs, made where they are first asked for, below `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = cache(self._project)
        self.unbroken = cache(self._unbroken)

    def _project(self, steps: int = STEPS) -> Path:
        """A project with data made and a run that has not begun."""
        project = self.folder / f"prepared-{steps}"
        if list(project.glob("survive/runs/*/manifest.json")):
            return project
        shutil.rmtree(project, ignore_errors=True)
        if steps == STEPS:
            project.mkdir(parents=True)
        else:  # the same data: only the length of the run differs
            shutil.copytree(self.project(STEPS), project, ignore=shutil.ignore_patterns("runs"))
        (project / "recipe.yaml").write_text(RECIPE.format(steps=steps, k=K))
        environment = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1", "UMSICHT_LANG": "en"}
        code = (
            "from pathlib import Path; from umsicht.cli.walks import open_walk; from umsicht.pipeline.run import prepare;"
            "from umsicht.pipeline.training import open_run;"
            "open_run(prepare(open_walk(Path('recipe.yaml'), out=Path('survive'), overrides=[], waive=[], because='')))"
        )
        subprocess.run([sys.executable, "-c", code], cwd=project, env=environment, check=True)
        return project

    def fresh(self, steps: int = STEPS) -> Path:
        """A copy of the prepared project for one scenario."""
        return copy_of(self.project(steps), Path(tempfile.mkdtemp(dir=self.folder)) / "job")

    def _unbroken(self, steps: int = STEPS, ranks: int = 2) -> Job:
        """The same job without any fault: what every other is compared with."""
        project = self.folder / f"unbroken-{steps}-{ranks}"
        if list(project.glob(f"survive/runs/*/checkpoints/step-{steps:08d}")):
            return Job(project, ranks=ranks)
        shutil.rmtree(project, ignore_errors=True)
        copy_of(self.project(steps), project)
        with Job(project, ranks=ranks) as job:
            if (code := job.end()) != 0:
                raise AssertionError(f"the unbroken run ended with {code}:\n{job.tail()}")
        return job

    def stopped_at(self, steps: int, project: Path, ranks: int = 2) -> Run:
        """A job that was asked to stop after `steps` steps; its run."""
        job = Job(project, ranks=ranks)
        with job:
            job.wait_step(steps)
            job.stop()
            return job.run
