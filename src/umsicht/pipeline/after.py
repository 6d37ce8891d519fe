"""After training: score the best checkpoint beside the baselines, say what the curves mean, write the report."""

from __future__ import annotations

from pathlib import Path

from umsicht.dashboard import report
from umsicht.diagnose import Diagnosis, diagnose
from umsicht.evaluate import Evaluation, load_all
from umsicht.evaluate.checkpoint import Options, evaluate_checkpoint, find
from umsicht.record import Progress, Run, atomic_json
from umsicht.record.manifest import read_manifest
from umsicht.train.checkpoints import MODEL

DIAGNOSIS = "diagnosis.json"
REPORT = "report.html"


def evaluate(run: Run, progress: Progress) -> Evaluation:
    """The evaluation of the run's best checkpoint; the recorded one where these weights were scored before."""
    manifest = read_manifest(find(run)) or {}
    digest = manifest.get("files", {}).get(MODEL, {}).get("sha256")
    for earlier in reversed(load_all(run)):
        if digest and earlier.checkpoint.get("digest") == digest:
            return earlier
    return evaluate_checkpoint(run, Options(), progress=progress)


def judge(run: Run) -> Diagnosis:
    """The verdict on the run's curves, kept beside them."""
    verdict = diagnose(run.folder)
    atomic_json(run.folder / DIAGNOSIS, verdict.to_dict())
    return verdict


def write_report(run: Run) -> Path:
    """The self-contained HTML report of the run."""
    return report(run.folder, run.folder / REPORT)
